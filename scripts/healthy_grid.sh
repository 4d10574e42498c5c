#!/usr/bin/env bash
# Looks for false alarms: traces healthy runs of the miniature trainer (depths, widths, precisions,
# seeds; tensor and sequence parallelism) and compares each with its reference without noise runs,
# with each single one, and with three. One line per comparison; fails if any is not a match.
# Takes about 6 minutes on 2 cores. PYTHON names an interpreter with torch, numpy and h5py.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
ttrace=${TTRACE:-build/ttrace}
export OMP_NUM_THREADS=1 PYTHONPATH=lib/torch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

models=(
  "--layers 6 --hidden 64 --heads 8 --ffn-hidden 128 --sequence 32 --steps 3"
  "--layers 6 --hidden 64 --heads 8 --ffn-hidden 128 --sequence 32 --precision bf16"
  "--layers 12 --clip 1.0"
  "--layers 12 --clip 1.0 --precision bf16"
  "--layers 2 --seed 7"
  "--layers 2 --seed 8 --precision bf16"
)
layouts=("--tp 2" "--tp 2 --sp" "--tp 4 --sp")
alarms=0
compared=0

for model in "${models[@]}"; do
  read -ra model_options <<<"$model"
  for seed in 0 1 2 3; do
    "$python" tests/gallery/train.py "${model_options[@]}" --trace "$folder/$seed.h5" \
      --perturb "$seed" >/dev/null
  done
  for layout in "${layouts[@]}"; do
    read -ra layout_options <<<"$layout"
    rm -rf "$folder/run"
    "$python" -m torch.distributed.run --standalone --nproc-per-node "${layout_options[1]}" \
      tests/gallery/train.py "${model_options[@]}" "${layout_options[@]}" --trace "$folder/run" \
      >/dev/null 2>"$folder/errors" || { cat "$folder/errors" >&2; exit 2; }
    for seeds in "" "1" "2" "3" "1 2 3"; do
      noise=()
      for seed in $seeds; do noise+=(--noise "$folder/$seed.h5"); done
      exit_code=0
      answer=$("$ttrace" compare "$folder/0.h5" "$folder/run" "${noise[@]}" --quiet) || exit_code=$?
      printf '%-82s %-12s noise [%-5s] %s\n' "$model" "$layout" "$seeds" "${answer%%$'\n'*}"
      compared=$((compared + 1))
      [ "$exit_code" = 0 ] || alarms=$((alarms + 1))
    done
  done
done
echo "$alarms of $compared healthy comparisons were not a match"
[ "$alarms" = 0 ]
