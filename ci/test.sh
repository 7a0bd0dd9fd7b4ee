#!/usr/bin/env bash
# Everything that must hold, from nothing: style, types, and the suite with every library demanded by name.
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

install -r ci/requirements.txt
# The oldest array-api-compat that pyproject.toml allows, beside the current one; a row of the matrix runs on it.
OLDEST=$(sed -n 's/.*array-api-compat>=\([0-9.]*\).*/\1/p' pyproject.toml)
export PORTABLE_FFN_OLDEST=$PWD/.venv/array-api-compat-oldest
[ -d "$PORTABLE_FFN_OLDEST" ] ||
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target "$PORTABLE_FFN_OLDEST" "array-api-compat==$OLDEST"

export PORTABLE_FFN_BACKENDS=${PORTABLE_FFN_BACKENDS-numpy,torch,jax,array-api-strict,dask,ndonnx,mlx}
export PORTABLE_FFN_MODEL=$MODEL
if [ -z "${PORTABLE_FFN_CASES-}" ] && [ -d ../shared ]; then
    export PORTABLE_FFN_CASES=$PWD/../shared
fi
# Two workers, one thread each: the suite is many small tests.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
exec .venv/bin/python -m pytest -n 2 --dist worksteal "$@"
