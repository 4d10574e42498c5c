#!/usr/bin/env bash
# Every case of tests/faults, not the sample that scripts/test.sh runs, with how many there were.
# Arguments go to pytest.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ttrace=${TTRACE:-$build/ttrace}
[ -x "$ttrace" ] || build_program
make_venv
cd "$root"
TTRACE_LONG=1 TTRACE=$ttrace PYTHONPATH=$root/lib/torch OMP_NUM_THREADS=1 \
  "$venv/bin/python" -m pytest tests/faults -q -p no:cacheprovider -rP "$@"
