#!/usr/bin/env bash
# The main job, from nothing: the feed-forward layers of a real trained model on every array library found here.
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

exec .venv/bin/portable-ffn check --model "$MODEL" "$@"
