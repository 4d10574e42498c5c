#!/usr/bin/env bash
# Runs released packages over their layouts, each row against one process, and prints one table.
# Usage: scripts/hunt.sh [--write tests/frameworks/HUNT.md] [NAME...]; TTRACE names the binary.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ttrace=${TTRACE:-$build/ttrace}
[ -x "$ttrace" ] || build_program
python=$(bash "$root/scripts/frameworks_venv.sh" --hunt)
cd "$root"
TTRACE=$ttrace PYTHONPATH=lib/torch:tests:tests/frameworks OMP_NUM_THREADS=1 \
  exec "$python" -m hunt.hunt "$@"
