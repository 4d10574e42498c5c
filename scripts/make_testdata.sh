#!/usr/bin/env bash
# Makes testdata/tiny_gpt and testdata/demo anew: real runs of the miniature trainer in tests/gallery.
# PYTHON names the interpreter to use; it needs torch, numpy and h5py.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
missing=$("$python" - <<'EOF'
import importlib.util
print(*(name for name in ("torch", "numpy", "h5py") if not importlib.util.find_spec(name)))
EOF
)
if [ -n "$missing" ]; then
  echo "make_testdata.sh: $python cannot import: $missing (PYTHON=... names another)" >&2
  exit 2
fi

# One thread: several may sum in another order each time, and the numbers would not be the same.
export OMP_NUM_THREADS=1
export PYTHONPATH="lib/torch${PYTHONPATH:+:$PYTHONPATH}"
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

one_process() {
  echo "$*"
  "$python" tests/gallery/train.py "${model[@]}" "$@"
}
two_processes() {
  echo "$*"
  "$python" -m torch.distributed.run --standalone --nproc-per-node 2 \
    tests/gallery/train.py "${model[@]}" --tp 2 --sp "$@"
}

# pairs TARGET NOISE_RUNS HEALTHY BUGGY: the traces of `model`.
pairs() {
  mkdir "$fresh/$1"
  TTRACE_SPECIFICATION="$fresh/$1/specification.json" one_process --trace "$fresh/$1/ref.h5"
  for seed in $(seq "$2"); do
    one_process --trace "$fresh/$1/noise$seed.h5" --perturb "$seed"
  done
  two_processes --trace "$fresh/$1/$3"
  two_processes --trace "$fresh/$1/$4" --bug P12
}

model=(--layers 2 --hidden 16 --heads 4 --ffn-hidden 32 --sequence 16 --vocabulary 32 --batch 2)
pairs tiny_gpt 3 tp2sp tp2sp_p12
model=(--layers 2 --hidden 8 --heads 2 --ffn-hidden 16 --sequence 8 --vocabulary 16 --batch 1)
pairs demo 1 healthy buggy

# Only when all of them are there does anything old go.
for target in tiny_gpt demo; do
  mkdir -p "testdata/$target"
  for made in "$fresh/$target"/*; do
    rm -rf "testdata/${target:?}/$(basename "$made")"
    mv "$made" "testdata/$target/"
  done
  du -sh "testdata/$target"
done
