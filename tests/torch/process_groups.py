"""Real process groups on this machine."""

from __future__ import annotations

import os
import socket
import sys
import time

import torch
import torch.multiprocessing as multiprocessing
from torch import distributed

SECONDS = 120

# What a first optimizer step imports, once for all ranks and not in each.
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()
# If a model is compiled before the first backward pass, torch 2.15 begins autograd's threads there,
# and in no fork of such a process a backward pass runs.
torch.ones(1, requires_grad=True).backward()


def run_ranks(count, work, *arguments):
    """Runs `work(rank, *arguments)` in `count` processes that form a gloo group.

    They are forked: importing torch again would take most of the test's time. Ranks that hang are
    killed and start once more.
    """
    if not _ran(count, work, arguments):
        print(f"{count} ranks hung for {SECONDS} s and start once more", file=sys.stderr)
        if not _ran(count, work, arguments):
            raise TimeoutError(f"{count} ranks hung twice for {SECONDS} s")


def _ran(count, work, arguments):
    """Whether the ranks ended; those that hang are killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = multiprocessing.start_processes(
        in_group, (count, port, work, arguments), nprocs=count, join=False, start_method="fork"
    )
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if processes.join(timeout=5):
            return True
    for process in processes.processes:
        process.kill()
        process.join()
    return False


def in_group(rank, count, port, work, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=count)
    work(rank, *arguments)
    distributed.destroy_process_group()
