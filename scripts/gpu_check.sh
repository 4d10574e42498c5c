#!/usr/bin/env bash
# Runs the collector on one GPU and checks it against plain copies. Needs Python with torch, h5py and
# numpy; PYTHON names the interpreter. Exit: 0 all checks passed, 1 one failed, 3 no GPU, nothing
# checked (a machine without one has not shown anything, so this is no success).
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHONPATH=lib/torch exec "${PYTHON:-python3}" scripts/gpu_check.py "$@"
