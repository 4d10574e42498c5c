"""What the scripts `launch_*.py WORLD CASES OUT` share: processes that train case after case.

CASES is a JSON object, name -> case. Each case writes OUT/<name>/, or OUT/<name>.h5 on one process.
How long each took goes to OUT/seconds<WORLD>.json, and why a case that says `refused` was to
OUT/<name>.txt.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

from ttrace_torch.errors import TraceError


def launch(begin, train):
    """Trains what the command line says.

    begin: called with the world's size on each process, makes the process group.
    train: called with a case and the path of its trace.
    """
    world, cases, out = int(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Forked, so that the framework is imported once.
    multiprocessing.start_processes(
        _run_rank, (world, port, begin, train, cases, out), nprocs=world, start_method="fork"
    )


def begin_gloo(rank, world):
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)


def _run_rank(rank, world, port, begin, train, cases, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCAL_RANK=str(rank))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    begin(rank, world)
    seconds = {}
    for name, case in cases.items():
        begun = time.monotonic()
        try:
            train(case, out / (f"{name}.h5" if world == 1 else name))
        except TraceError as error:
            if not case.get("refused"):
                raise
            (out / f"{name}.txt").write_text(str(error), encoding="utf-8")
        seconds[name] = time.monotonic() - begun
    if rank == 0:
        (out / f"seconds{world}.json").write_text(json.dumps(seconds), encoding="utf-8")
    torch.distributed.destroy_process_group()
