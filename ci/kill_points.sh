#!/usr/bin/env bash
# Kills `portable-ffn apply` at every call to the system that matters, of .npy files in both orders and of Zarr arrays,
# and starts it again each time; prints the points by call and what went wrong. Minutes; the tests take a part of it.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-python}" -m tests.command.kill_points "$@"
