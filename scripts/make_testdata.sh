#!/usr/bin/env bash
# Makes testdata/tiny_gpt anew: real runs of the miniature trainer in tests/gallery.
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
model=(--layers 2 --hidden 16 --heads 4 --ffn-hidden 32 --sequence 16 --vocabulary 32 --batch 2)
target=testdata/tiny_gpt
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

TTRACE_SPECIFICATION="$fresh/specification.json" one_process --trace "$fresh/ref.h5"
for seed in 1 2 3; do
  one_process --trace "$fresh/noise$seed.h5" --perturb "$seed"
done
two_processes --trace "$fresh/tp2sp"
two_processes --trace "$fresh/tp2sp_p12" --bug P12

# Only when all of them are there does anything old go.
mkdir -p "$target"
for made in "$fresh"/*; do
  rm -rf "${target:?}/$(basename "$made")"
  mv "$made" "$target/"
done
du -sh "$target"
