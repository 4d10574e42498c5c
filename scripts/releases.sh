#!/usr/bin/env bash
# Trains the newest release of every package and the three before, healthy and with a planted bug, and
# brings tests/frameworks/RELEASES.md up to date.
# Usage: scripts/releases.sh [--new] [--folder DIRECTORY] [NAME...]; TTRACE names the binary.
# --new: only what has no row yet. NAME: packages or releases, such as trl or "torch 2.15.0".
# Environments are made below DIRECTORY, one at a time, and deleted: up to 12 GB, as torch from the
# package index comes with CUDA. pip's own settings hold, e.g. PIP_INDEX_URL for torch without CUDA.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ttrace=${TTRACE:-$build/ttrace}
[ -x "$ttrace" ] || build_program
make_venv
cd "$root"
TTRACE=$ttrace PYTHONPATH=lib/torch:tests:tests/frameworks OMP_NUM_THREADS=1 \
  exec "$venv/bin/python" -m releases.study --write tests/frameworks/RELEASES.md "$@"
