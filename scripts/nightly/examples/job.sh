#!/usr/bin/env bash
# What every scheduler's example calls: the commands of your job. Change these, and nothing else.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/../night.sh" \
  --out "${NIGHTS:-nights}" --keep 14 --require loss,main_grad \
  --reference 'python train.py' \
  --layout ddp2='torchrun --standalone --nproc-per-node 2 train.py' \
  --layout fsdp2='torchrun --standalone --nproc-per-node 2 train.py --fsdp' \
  "$@"
