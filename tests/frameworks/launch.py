"""Trains cases on a number of processes, one case after the other: `launch.py WORLD CASES OUT`.

CASES is a JSON object, name -> case, with `parallel` (arguments for Megatron's groups) and what
`train_gpt.main` reads. Each case writes OUT/<name>/, or OUT/<name>.h5 on one process; how long
each took goes to OUT/seconds<WORLD>.json, and why a case that says `refused` was to OUT/<name>.txt.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

import megatron_on_cpu
import torch
import torch.multiprocessing as multiprocessing

megatron_on_cpu.install()

import train_gpt  # noqa: E402
from faults import FAULTS  # noqa: E402
from megatron.core import parallel_state  # noqa: E402

from ttrace_torch.errors import TraceError  # noqa: E402


def run_rank(rank, world, port, cases, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    seconds = {}
    for name, case in cases.items():
        begun = time.monotonic()
        parallel_state.initialize_model_parallel(**case.get("parallel", {}))
        try:
            with FAULTS[case.get("fault", "none")]():
                train_gpt.main(case, out / (f"{name}.h5" if world == 1 else name))
        except TraceError as error:
            if not case.get("refused"):
                raise
            (out / f"{name}.txt").write_text(str(error), encoding="utf-8")
        parallel_state.destroy_model_parallel()
        seconds[name] = time.monotonic() - begun
    if rank == 0:
        (out / f"seconds{world}.json").write_text(json.dumps(seconds), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    world, cases, out = int(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Forked, so that Megatron is imported once.
    multiprocessing.start_processes(
        run_rank, (world, port, cases, out), nprocs=world, start_method="fork"
    )
