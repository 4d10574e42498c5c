#!/usr/bin/env bash
# Every case of tests/gallery, tests/healthy and tests/torch, and claims of a million ranks, not only
# the quick ones that scripts/test.sh runs. Arguments go to pytest.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ttrace=${TTRACE:-$build/ttrace}
[ -x "$ttrace" ] || build_program
make_venv
cd "$root"
TTRACE_LONG=1 TTRACE=$ttrace PYTHONPATH=$root/lib/torch OMP_NUM_THREADS=1 \
  "$venv/bin/python" -m pytest tests/gallery tests/healthy tests/torch \
  tests/cli/test_large_claims.py -q -p no:cacheprovider "$@"
