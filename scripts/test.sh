#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test, C++ and Python, and the quick part of
# scripts/lint.sh. A second run reuses all.
#   scripts/test.sh [--durations] [ARGUMENT OF PYTEST...]
# --durations lists the twenty slowest tests of each language.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

durations=()
if [ "${1:-}" = --durations ]; then
  durations=(--durations=20)
  shift
fi

install_packages "${packages[@]}"
# Installing a browser and the Python packages is mostly waiting, so it goes on while the compiler
# works.
mkdir -p "$build"
environments_log=$build/environments.log
{ install_browser && make_venv && bash "$root/scripts/frameworks_venv.sh"; } >"$environments_log" 2>&1 &
environments=$!
trap 'kill "$environments" 2>/dev/null || true' EXIT
configure -DTTRACE_BUILD_TESTS=ON
compile

say "C++ tests"
ctest --test-dir "$build" --parallel "$(nproc)" --no-tests=error --output-on-failure --quiet \
  --output-log "$build/ctest.log" || {
  cat "$build/ctest.log"
  exit 1
}
if [ ${#durations[@]} -gt 0 ]; then
  sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \(.*[^ .]\) [ .]*Passed *\([0-9.]*\) sec$/\2s \1/p' \
    "$build/ctest.log" | sort -rn | sed -n 1,20p
fi
tail -n 5 "$build/ctest.log"

wait "$environments" || {
  cat "$environments_log" >&2
  exit 1
}
trap - EXIT
rm -f "$environments_log"
linted=true
bash "$root/scripts/lint.sh" --quick || linted=false  # fails this script after the tests
say "Python tests"
# They put thousands of files in place, and wait for the disk each time. Where there is memory for all
# of them (2 GiB, and what training takes), they lie there.
gib() { awk '{print int($1 / 1048576)}'; }
scratch=()
if [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1 | gib)" -ge 8 ] &&
  [ "$(sed -n 's/^MemAvailable: *//p' /proc/meminfo | gib)" -ge 12 ]; then
  in_memory=$(mktemp -d /dev/shm/ttrace-tests.XXXXXX)
  trap 'rm -rf "$in_memory"' EXIT
  scratch=(--basetemp "$in_memory/tests")
fi
workers=$(nproc)  # each needs some 2 GiB: tests train
[ "$workers" -le 8 ] || workers=8
cd "$root"
# Tests start many Python programs. Each would compile the collector anew, for a third of a second, if
# none may keep what it compiled.
unset PYTHONDONTWRITEBYTECODE
# The files stay in the order of tests/conftest.py, the slowest first.
TTRACE=$build/ttrace PYTHONPATH=$root/lib/torch OMP_NUM_THREADS=1 \
  "$venv/bin/python" -m pytest tests -q -p no:cacheprovider -n "$workers" --dist loadfile \
  --no-loadscope-reorder "${durations[@]}" "${scratch[@]}" "$@"
$linted || { echo "scripts/lint.sh --quick failed, see above" >&2; exit 1; }
