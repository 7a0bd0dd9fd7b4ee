#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: the matrix on PyTorch, JAX and CuPy there, then the bench of JAX. No part of the tests.
#
# ci/gpu.sh            # makes .venv-gpu, runs both
# CUDA=12 ci/gpu.sh    # for an older driver
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
CUDA=${CUDA-13}

if [ ! -x .venv-gpu/bin/python ]; then
    python3 -m venv .venv-gpu
    # No constraints: those of ci/constraints.txt are builds for the CPU.
    .venv-gpu/bin/python -m pip install -q --disable-pip-version-check -e '.[checkpoint,cli]' \
        pytest torch "jax[cuda$CUDA]" "cupy-cuda${CUDA}x"
fi
# Both libraries would take most of the memory at their start.
export XLA_PYTHON_CLIENT_PREALLOCATE=false
for backend in torch:cuda jax:gpu cupy; do
    PORTABLE_FFN_BACKENDS=$backend .venv-gpu/bin/python -m pytest -q -p no:cacheprovider -k "$backend" tests/test_matrix.py
done
.venv-gpu/bin/portable-ffn check --backend torch:cuda --backend jax:gpu --backend cupy
# The bench's arrays lie where their library puts them by itself: JAX's on the GPU, PyTorch's on the CPU.
.venv-gpu/bin/portable-ffn bench --libraries jax "$@"
