#!/usr/bin/env bash
# Format and lint of C++, Python and shell scripts: clang-format-16, clang-tidy-16, ruff, mypy, and
# the tool shellcheck, each from PATH or the virtual environment of the tests.
#
#   scripts/lint.sh           all of them, and every header compiled alone; every tool must be
#                             installed, and the build folder configured
#   scripts/lint.sh --quick   without clang-tidy and the headers, which take long; skips tools that
#                             are absent
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$root"
export PATH=$PATH:$venv/bin
quick=${1:-}

tools=(clang-format-16 ruff mypy shellcheck)
[ "$quick" = --quick ] || tools+=(clang-tidy-16)
absent=()
failed=false
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || absent+=("$tool")
done
if [ ${#absent[@]} -gt 0 ]; then
  echo "lint: ${absent[*]} not installed"
  [ "$quick" = --quick ] || exit 2
fi

# lint TOOL COMMAND...: starts the command if the tool is there. The tools use one core each.
started=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
lint() {
  local tool=$1 log=$logs/${#started[@]}
  shift
  [[ " ${absent[*]} " != *" $tool "* ]] || return 0
  say "$tool" >"$log"
  "$@" >>"$log" 2>&1 &
  started+=($!)
}

# Waits for all that was started, and prints what each said.
finish() {
  local i
  for i in "${!started[@]}"; do
    wait "${started[$i]}" || failed=true
    cat "$logs/$i"
  done
  started=()
}

mapfile -t sources < <(git ls-files 'apps/*.cpp' 'lib/*.cpp')
mapfile -t all < <(git ls-files '*.cpp' '*.cu' '*.h')
mapfile -t shell < <(git ls-files '*.sh' .ci/run)
format() { clang-format-16 --dry-run -Werror "${all[@]}"; }
types() { (cd lib/torch && mypy ttrace_torch ttrace_command build_support); }
scripts() { shellcheck --external-sources --exclude=SC2119 "${shell[@]}"; }
# The compile commands may be GCC's, whose warning flags clang does not all know.
tidy() {
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 \
    clang-tidy-16 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
      --extra-arg=-Wno-unused-command-line-argument 2>/dev/null
}

headers() { python3 tests/architecture/check_headers.py "$build"; }

lint mypy types  # takes longest
lint clang-format-16 format
lint ruff ruff check .
lint ruff ruff format --check .
lint shellcheck scripts
finish
if [ "$quick" != --quick ]; then
  lint clang-tidy-16 tidy
  finish
  lint headers headers
  finish
fi
! $failed
