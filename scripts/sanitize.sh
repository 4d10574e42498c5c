#!/usr/bin/env bash
# Runs the C++ tests under AddressSanitizer + UBSan, then under ThreadSanitizer. Each in a build
# directory of its own beside build/.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# Of a damaged file HDF5 asks for as much memory as the file says, takes no for an answer, and leaks
# what it had begun to read.
export ASAN_OPTIONS=allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export TSAN_OPTIONS=allocator_may_return_null=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}
leaks=$(mktemp)
trap 'rm -f "$leaks"' EXIT
echo 'leak:H5FL_' >"$leaks"
export LSAN_OPTIONS=suppressions=$leaks${LSAN_OPTIONS:+:$LSAN_OPTIONS}

install_packages "${packages[@]}"
for sanitizers in address,undefined thread; do
  folder=$root/build-${sanitizers%%,*}
  say "$sanitizers in $folder"
  generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  # Instrumented code makes GCC warn of what is not so (maybe-uninitialized in std::regex).
  cmake -S "$root" -B "$folder" "${generator[@]}" -DCMAKE_BUILD_TYPE=Debug -DTTRACE_WERROR=OFF \
    -DTTRACE_SANITIZE="$sanitizers" >/dev/null
  cmake --build "$folder" --parallel "$(nproc)"
  ctest --test-dir "$folder" --parallel "$(nproc)" --no-tests=error --output-on-failure --quiet \
    --output-log "$folder/ctest.log" || {
    cat "$folder/ctest.log"
    exit 1
  }
  tail -n 5 "$folder/ctest.log"
done
