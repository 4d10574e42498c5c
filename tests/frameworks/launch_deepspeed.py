"""Trains cases on some processes, one after the other: `launch_deepspeed.py WORLD CASES OUT`.

CASES is a JSON object, name -> what `train_deepspeed.main` reads; one with a "loop" is for
`deepspeed_loops`, one without a "stage" for plain PyTorch. Each case writes OUT/<name>/, or
OUT/<name>.h5 on one process.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

os.environ.update(DS_ACCELERATOR="cpu")

import deepspeed  # noqa: E402
import deepspeed_loops  # noqa: E402
import train_deepspeed  # noqa: E402
import train_deepspeed_reference  # noqa: E402


def run_rank(rank, world, port, cases, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCAL_RANK=str(rank))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    # Shared memory between CPUs, an extension in C++ that would be compiled first.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # DeepSpeed declines fp16 on CPUs that are slow at it.
    deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
    deepspeed.init_distributed("gloo", rank=rank, world_size=world)
    for name, case in cases.items():
        script = deepspeed_loops if "loop" in case else train_deepspeed
        script = script if "stage" in case else train_deepspeed_reference
        script.main(case, out / (f"{name}.h5" if world == 1 else name))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    world, cases, out = int(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Forked, so that DeepSpeed is imported once.
    multiprocessing.start_processes(
        run_rank, (world, port, cases, out), nprocs=world, start_method="fork"
    )
