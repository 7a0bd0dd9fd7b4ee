#!/usr/bin/env bash
# The picture of a check's page on the site and in the README, made anew from a run; needs Chromium.
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
PAGE=$(mktemp -d)
cat > "$PAGE/mine.py" <<'PYTHON'
import numpy as np


def network(x, W1, b1, W2, b2):
    h = x @ W1 + b1
    return 0.5 * h * (1 + np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h**3))) @ W2 + b2
PYTHON
(cd "$PAGE" && "$OLDPWD/.venv/bin/portable-ffn" check --ffn mine:network --activation gelu --backend numpy --html "$PAGE/report.html" >/dev/null) || [ $? = 1 ]
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking --disable-component-update \
    --disable-sync --no-first-run --user-data-dir="$PAGE/profile" --window-size=1000,720 --force-device-scale-factor=1 \
    --screenshot=docs/_static/check.png "file://$PAGE/report.html" >/dev/null 2>&1
rm -rf "$PAGE"
