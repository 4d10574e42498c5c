#!/usr/bin/env bash
# Fuzzes the readers of files from elsewhere (tests/fuzz) under AddressSanitizer and UBSan, one after the
# other, for some seconds each:
#   scripts/fuzz.sh [SECONDS [TARGET...]]      600 seconds each, and all targets
# Needs clang with libFuzzer, 16 or newer (clang-16 and libclang-rt-16-dev on Debian; CXX names another).
# Builds into build-fuzz/. What it found lies in build-fuzz/found/TARGET: mend it, and put the file into
# tests/fuzz/corpus/TARGET, which the tests replay.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

seconds=${1:-600}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls "$root/tests/fuzz/corpus")
folder=$root/build-fuzz
compiler=${CXX:-clang++-16}
command -v "$compiler" >/dev/null || {
  echo "$compiler is not installed; install clang-16 and libclang-rt-16-dev, or name another clang in CXX." >&2
  exit 2
}
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S "$root" -B "$folder" "${generator[@]}" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 \
  -DTTRACE_WERROR=OFF -DTTRACE_CUDA=OFF -DTTRACE_FUZZ=ON \
  -DTTRACE_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
cmake --build "$folder" --parallel "${TTRACE_JOBS:-$(nproc)}" --target ttrace_fuzzer

faults=0
for target in "${targets[@]}"; do
  corpus=$folder/corpus/$target found=$folder/found/$target log=$folder/$target.log
  mkdir -p "$corpus" "$found"
  say "$target, $seconds s"
  # A reader takes some hundred bytes for a byte of its file, at most; 64 KiB reach every branch.
  TTRACE_FUZZ_TARGET=$target "$folder/tests/fuzz/ttrace_fuzzer" -max_total_time="$seconds" -max_len=65536 \
    -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$found/" \
    "$corpus" "$root/tests/fuzz/corpus/$target" >"$log" 2>&1 || faults=$((faults + 1))
  # One that did not start has found nothing.
  grep -q "number_of_executed_units\|ERROR\|SUMMARY\|runtime error" "$log" || {
    tail -n 5 "$log" >&2
    echo "$target did not run, see $log" >&2
    exit 2
  }
  grep -E "number_of_executed_units|average_exec|ERROR|SUMMARY|runtime error" "$log"
done
echo "$faults of ${#targets[@]} targets with findings"
[ "$faults" = 0 ]
