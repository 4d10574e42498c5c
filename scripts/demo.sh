#!/usr/bin/env bash
# Installs what is missing, builds, and compares a healthy and a buggy run of a small GPT under tensor
# and sequence parallelism with the same step on one process.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

build_program

cd "$root/testdata/tiny_gpt"
noise=(--noise noise1.h5 --noise noise2.h5 --noise noise3.h5)

# show EXPECTED_EXIT RUN
show() {
  local exit_code=0
  printf '\n$ ttrace compare ref.h5 %s %s\n\n' "$2" "${noise[*]}"
  "$build/ttrace" compare ref.h5 "$2" "${noise[@]}" || exit_code=$?
  printf '\nexit code %s\n' "$exit_code"
  if [ "$exit_code" != "$1" ]; then
    echo "The exit code should have been $1: please report this." >&2
    exit 1
  fi
}

say "a healthy run: tensor parallel 2, sequence parallel"
show 0 tp2sp
say "the same, with a real bug: the norms' gradients are never summed over the tensor-parallel ranks"
show 1 tp2sp_p12
