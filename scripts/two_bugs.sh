#!/usr/bin/env bash
# Trains the miniature with two bugs at once, pair by pair, and writes tests/power/TWO_BUGS.md: how
# often are both named? Takes some minutes on 2 cores.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

export TTRACE=${TTRACE:-$build/ttrace}
if [ ! -x "$TTRACE" ]; then
  install_packages
  configure_and_build
fi
make_venv
export PYTHONPATH=$root/lib/torch:$root/tests OMP_NUM_THREADS=1
exec "$venv/bin/python" -m power.two_bugs
