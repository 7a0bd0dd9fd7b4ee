#!/usr/bin/env bash
# Speed against the limits that hold on two cores with nothing else running; no part of the tests.
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install -r ci/requirements.txt

# Kernels of other processors, forced by a setting, would be measured instead of this one's.
for name in "${!OPENBLAS_@}" "${!NVPL_@}"; do
    unset "$name"
done

exec .venv/bin/python ci/bench_limits.py "$@"
