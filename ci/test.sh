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
.venv/bin/python -m pytest -n 2 --dist worksteal "$@"
[ $# -eq 0 ] || exit 0

# Libraries that pin what others need otherwise: an environment of their own, and a process for each, since TensorFlow
# and Paddle end one in which both are loaded. tinygrad compiles by clang.
[ -x .venv-more/bin/python ] || .venv/bin/python -m venv .venv-more
log=$(.venv-more/bin/python -m pip install --disable-pip-version-check -c ci/constraints-more.txt -r ci/requirements-more.txt -e . 2>&1) ||
    { echo "$log" >&2; exit 2; }
# The CPU as a SYCL device, which only a file in the system's /etc would tell else.
export OCL_ICD_FILENAMES=$PWD/.venv-more/lib/libintelocl.so TF_CPP_MIN_LOG_LEVEL=3
# CI names all four; where there is no clang, tinygrad is left out, and that is said.
if [ -z "${PORTABLE_FFN_MORE-}" ]; then
    PORTABLE_FFN_MORE="tensorflow paddle dpnp"
    if command -v "${CC-clang}" >/dev/null; then PORTABLE_FFN_MORE="$PORTABLE_FFN_MORE tinygrad"; else
        echo "tinygrad is not tested: it compiles by clang, and there is none here"
    fi
fi
for library in $PORTABLE_FFN_MORE; do
    tests="tests/test_matrix.py tests/transfer/test_frameworks.py tests/engines/test_$library.py tests/test_examples.py"
    # Each new shape and formula is compiled by tinygrad, in seconds.
    [ "$library" = tinygrad ] || tests="$tests tests/arrays tests/activations/test_resolve.py tests/test_contract.py"
    PORTABLE_FFN_BACKENDS=$library .venv-more/bin/python -m pytest -q -p no:cacheprovider -k "$library" $tests
done
