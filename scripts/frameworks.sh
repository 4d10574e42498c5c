#!/usr/bin/env bash
# Runs the whole grid of real frameworks, the long cases too, and prints the table of what came out.
# Arguments go to pytest, e.g. -k megatron.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ttrace=${TTRACE:-$build/ttrace}
[ -x "$ttrace" ] || build_program
make_venv

table=$(mktemp)
trap 'rm -f "$table"' EXIT
cd "$root"
status=0
TTRACE=$ttrace TTRACE_LONG=1 TTRACE_TABLE=$table PYTHONPATH=$root/lib/torch OMP_NUM_THREADS=1 \
  "$venv/bin/python" -m pytest tests/frameworks -q -p no:cacheprovider "$@" || status=$?
say "Every case against one process"
"$venv/bin/python" tests/frameworks/grid.py "$table"
exit "$status"
