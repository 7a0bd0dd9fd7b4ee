#!/usr/bin/env bash
# The site, from nothing: every warning an error, every link inside it checked, every page of the gallery executed.
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install -r ci/requirements.txt -e ".[docs]"

export OMP_NUM_THREADS=1 MPLBACKEND=agg
rm -rf docs/_build docs/gallery_built docs/reference/generated
.venv/bin/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
.venv/bin/python -m sphinx -q -W --keep-going -b linkcheck docs docs/_build/links
echo "docs/_build/html/index.html"
