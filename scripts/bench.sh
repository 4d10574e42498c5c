#!/usr/bin/env bash
# How fast and in how much memory `ttrace compare` works, beside cat, h5diff, numpy and gzip on the
# same files; what belongs into scripts/BENCHMARKS.md.
# Usage: scripts/bench.sh [--size 2G] [--rounds 5] [--only CASE,...] [--growth] [--folder DIR]
#        scripts/bench.sh --real [--rounds 15] [--only adamw,gpt2,llama] [--millions 64] [--tiny]
#        [--folder DIR] [--traces DIR]: traces as training makes them, beside the bare loop, which
#        needs `cmake --build build --target ttrace_bare_loop`; the models need torch and
#        transformers (PYTHON=.venv-frameworks/bin/python).
# Needs h5diff (hdf5-tools), gzip, and a python3 with numpy and h5py: PYTHON, or .venv, or python3.
# Builds ttrace_synth, which makes the traces, if it is not there.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

cd "$root"
build_synth
python=${PYTHON:-$(test -x .venv/bin/python && echo .venv/bin/python || echo python3)}
script=bench_compare.py
if [ "${1:-}" = --real ]; then
  script=bench_real.py
  shift
fi
TTRACE=$(realpath "${TTRACE:-$build/ttrace}") PYTHONPATH=lib/torch:tests:tests/frameworks \
  OMP_NUM_THREADS=1 exec "$python" "scripts/$script" "$@"
