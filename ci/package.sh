#!/usr/bin/env bash
# Wheel and sdist, built, checked, and the wheel tried in a bare environment: NumPy and array-api-compat alone.
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install build twine check-wheel-contents

rm -rf dist build
.venv/bin/python -m build -q
.venv/bin/twine check --strict dist/*
.venv/bin/check-wheel-contents dist/*.whl

BARE=$(mktemp -d)
trap 'rm -rf "$BARE"' EXIT
# Every Python at hand that is new enough.
for python in python3.11 python3.12 python3.13 python3.14; do
    command -v "$python" >/dev/null && "$python" -c 'import venv, ensurepip' 2>/dev/null || continue
    "$python" -m venv "$BARE/$python"
    "$BARE/$python/bin/python" -m pip install -q --disable-pip-version-check dist/*.whl 2>/dev/null
    (cd "$BARE" && "$BARE/$python/bin/python" - <<'PYTHON'
import sys
from functools import partial

import numpy as np

from portable_ffn import feed_forward, init_weights
from portable_ffn.testing import check

y = feed_forward(np.ones((2, 8)), *init_weights(8, 32), activation="gelu")
assert y.shape == (2, 8)
check(partial(feed_forward, activation="gelu"), activation="gelu", backends="numpy").raise_if_failed()
print(f"the wheel works on Python {sys.version.split()[0]} with NumPy {np.__version__}")
PYTHON
    )
done
