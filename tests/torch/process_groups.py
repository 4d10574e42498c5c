"""Real process groups on this machine."""

from __future__ import annotations

import os
import socket

import torch
import torch.multiprocessing as multiprocessing
from torch import distributed


def run_ranks(count, work, *arguments):
    """Runs `work(rank, *arguments)` in `count` processes that form a gloo group.

    They are forked: importing torch again would take most of the test's time.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = multiprocessing.start_processes(
        in_group, (count, port, work, arguments), nprocs=count, join=False, start_method="fork"
    )
    while not processes.join(timeout=300):
        pass


def in_group(rank, count, port, work, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=count)
    work(rank, *arguments)
    distributed.destroy_process_group()
