#!/usr/bin/env bash
# Everything that needs a GPU, in one call: builds the kernels and compares every kind of request with
# the CPU bit for bit, products of matrices and values that already lie on the device too, under
# compute-sanitizer as well where it is there, measures the device, beside cuBLAS where it is there
# (TTRACE_CUBLAS names it), and checks the collector where Python has torch (PYTHON names the
# interpreter), compare_tensors where libttrace.so was built too (build/, or TTRACE_LIBRARY), a matrix
# of layouts over NCCL where ttrace was built (build/ttrace, or TTRACE), and jobs of many kinds where
# Python has transformers as well. Needs nvcc, CMake and a C++ compiler, no network and no other
# package. Prints one table last, and the first of it as it comes: networks of other kernels take three
# minutes on 16 cores, the jobs most of ten, and those that nobody ships two. Exit: 0 all checks that
# could run passed, 1 one failed, 3 no GPU, nothing checked (that is no success).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${TTRACE_GPU_BUILD_DIR:-build-gpu}
python=${PYTHON:-python3}
table=()
failed=false

row() { table+=("$(printf '%-52s  %s' "$1" "$2")"); }

# check NAME COMMAND...: a row of the table with what the command's exit code means.
check() {
  local name=$1 code=0
  shift
  "$@" || code=$?
  case $code in
    0) row "$name" passed ;;
    3) row "$name" "not run, or not all of it: see above" ;;
    *)
      row "$name" "FAILED (exit code $code)"
      failed=true
      ;;
  esac
}

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S tests/measure/cuda/on_device -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release
cmake --build "$build" --parallel "$(nproc)"
program=$build/device_check
module=$build/ttrace_cuda.so

code=0
"$program" "$module" | tee "$build/conformance.txt" || code=$?
if [ "$code" = 3 ]; then
  echo "gpu_check: the kernels were built, but there is no GPU: nothing was checked" >&2
  exit 3
fi
if [ "$code" = 0 ]; then row "bits of the CPU" passed; else
  row "bits of the CPU" "FAILED (exit code $code)"
  failed=true
fi

for tool in memcheck racecheck; do
  if command -v compute-sanitizer >/dev/null; then
    check "compute-sanitizer $tool" \
      compute-sanitizer --tool "$tool" --error-exitcode 1 "$program" "$module" --quick
  else
    row "compute-sanitizer $tool" "not run: it is not installed"
  fi
done

if "$python" -c 'import torch, h5py; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then
  check "the collector on CUDA tensors" env PYTHONPATH=lib/torch "$python" scripts/gpu_check.py "$@"
else
  row "the collector on CUDA tensors" "not run: $python has no torch with CUDA and h5py"
fi

library=${TTRACE_LIBRARY:-build/libttrace.so}
if ! "$python" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then
  row "compare_tensors of CUDA tensors" "not run: $python has no torch with CUDA"
elif [ ! -f "$library" ]; then
  row "compare_tensors of CUDA tensors" "not run: there is no $library (cmake -B build && cmake --build build)"
else
  # The library looks for the kernels beside itself; where it was built there may be no nvcc.
  mkdir -p "$build/library"
  cp "$library" "$module" "$build/library/"
  check "compare_tensors of CUDA tensors" env PYTHONPATH=lib/torch \
    TTRACE_LIBRARY="$build/library/$(basename "$library")" "$python" scripts/gpu_check_compare.py
fi

# check_trained NAME "PACKAGE..." ARGUMENT...: a row of a Python module of tests/ that trains on the
# GPU and asks ttrace; ARGUMENT... are the module and what it is given.
export TTRACE=${TTRACE:-build/ttrace}
check_trained() {
  local name=$1 packages=$2
  shift 2
  if ! "$python" -c "import ${packages// /, }, torch
raise SystemExit(not torch.cuda.is_available())" 2>/dev/null; then
    row "$name" "not run: $python lacks torch with CUDA, or one of $packages"
  elif [ ! -x "$TTRACE" ]; then
    row "$name" "not run: there is no $TTRACE (cmake -B build && cmake --build build)"
  else
    check "$name" env PYTHONPATH="lib/torch:tests${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1 \
      "$python" -m "$@"
  fi
}

# Layouts over NCCL, with a rank for every GPU there is.
check_trained "a matrix of layouts over NCCL" "h5py" matrix.over_nccl
# Networks with convolutions, whose candidates take other kernels than the reference.
check_trained "convolutions of other kernels, compared" "transformers h5py" \
  zoo.other_kernels --at-once "$(($(nproc) / 2))"
# Jobs of many kinds, whose products, convolutions and attention are the GPU's own.
check_trained "jobs trained on it, audited and compared" "transformers h5py jsonschema_rs" \
  zoo.on_gpu "$build/jobs.jsonl" --at-once "$(($(nproc) / 2 + 1))"

# Small jobs of kinds that no package has.
check_trained "jobs that nobody ships, audited and compared" "h5py" \
  zoo.odd_jobs --device cuda --at-once "$(($(nproc) / 2))"

printf '\n'
cat "$build/conformance.txt"
printf '%s\n' "${table[@]}"
! $failed
