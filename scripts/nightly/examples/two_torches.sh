#!/usr/bin/env bash
# A night whose torch changed: the reference and its noise runs from one Python, the candidates from
# another, over layouts of the miniature trainer of tests/gallery.
#
#   two_torches.sh OLD_PYTHON NEW_PYTHON [OPTIONS of night.sh]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
old=$1 new=$2
shift 2
export PYTHONPATH=$root/lib/torch OMP_NUM_THREADS=1

# shellcheck disable=SC2016 # night.sh sets the variables, for each job
train="'$root/tests/gallery/train.py' --microbatches 4 --trace \"\$TTRACE_OUT\" --perturb \${TTRACE_NOISE:-0}"
layouts=()
# layout NAME RANKS OPTIONS...: a candidate
layout() {
  layouts+=(--layout "$1='$new' -m torch.distributed.run --standalone --nproc-per-node $2 $train ${*:3}")
}
layout ddp2 2 --dp 2
layout zero2 2 --dp 2 --zero
layout tp2 2 --tp 2
layout tp2sp 2 --tp 2 --sp
layout pp2 2 --pp 2
layout cp2 2 --cp 2
layout dp2tp2 4 --dp 2 --tp 2
exec "$here/../night.sh" --reference "'$old' $train" "${layouts[@]}" "$@"
