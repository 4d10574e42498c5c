#!/usr/bin/env bash
# Format and lint, C++ and Python: clang-format-16, clang-tidy-16, ruff and mypy must be installed.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$root"

mapfile -t sources < <(git ls-files 'apps/*.cpp' 'lib/*.cpp')
mapfile -t all < <(git ls-files '*.cpp' '*.h')

say "clang-format"
clang-format-16 --dry-run -Werror "${all[@]}"
say "clang-tidy"
# The compile commands may be GCC's, whose warning flags clang does not all know.
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 \
  clang-tidy-16 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
say "ruff"
ruff check .
ruff format --check .
say "mypy"
(cd lib/torch && mypy ttrace_torch)
