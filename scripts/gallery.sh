#!/usr/bin/env bash
# Trains the miniature with each bug of its gallery and prints what ttrace says: found or not, the
# first finding, the cause. Names of bugs choose some; --healthy takes the same layouts without bugs,
# --two pairs of bugs, --matrix goes through assert_equivalent alone; --write also writes the page in
# tests/power. Takes some minutes on 2 cores.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

export TTRACE=${TTRACE:-$build/ttrace}
[ -x "$TTRACE" ] || build_program
make_venv
export PYTHONPATH=$root/lib/torch:$root/tests OMP_NUM_THREADS=1
exec "$venv/bin/python" -m power.bug_gallery "$@"
