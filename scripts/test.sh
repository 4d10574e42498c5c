#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test, C++ and Python, and the quick part of
# scripts/lint.sh. A second run reuses all.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages
configure_and_build

say "C++ tests"
ctest --test-dir "$build" --parallel "$(nproc)" --no-tests=error --output-on-failure --quiet \
  --output-log "$build/ctest.log" || {
  cat "$build/ctest.log"
  exit 1
}
tail -n 5 "$build/ctest.log"

make_venv
linted=true
bash "$root/scripts/lint.sh" --quick || linted=false  # fails this script after the tests
say "Python tests"
workers=$(nproc)  # each needs some 2 GiB: tests train
[ "$workers" -le 8 ] || workers=8
cd "$root"
TTRACE=$build/ttrace PYTHONPATH=$root/lib/torch OMP_NUM_THREADS=1 \
  "$venv/bin/python" -m pytest tests -q -p no:cacheprovider -n "$workers" --dist loadfile "$@"
$linted || { echo "scripts/lint.sh --quick failed, see above" >&2; exit 1; }
