#!/usr/bin/env bash
# Damaged checkpoints by the hundred thousand: COUNT files in all (100,000 where none is given), of five kinds.
# PORTABLE_FFN_CASES adds the outside cases to what is damaged. Stops at the first file whose answer is neither a
# network that computes nor one line that says why not, and prints the smallest file like it and how to make it again.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-100000}
kinds=$(grep -c '^def test_' tests/checkpoint/test_fuzz.py)
PORTABLE_FFN_FUZZ=$(((count + kinds - 1) / kinds)) exec python -m pytest -n0 -q tests/checkpoint/test_fuzz.py --durations=10
