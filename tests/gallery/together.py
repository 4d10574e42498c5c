"""Runs the trainer in processes forked from this one: importing torch takes longer than a run."""

import dataclasses
import functools
import os
import socket
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

import ttrace_torch  # noqa: F401  what the forks import need not be imported in each of them
from gallery.config import Config
from gallery.train import train


def traced(config: Config, trace: Path) -> Path:
    """Trains with as many processes as the mesh takes; they write `trace`."""
    _import_all()
    ranks = config.ranks
    config = dataclasses.replace(config, trace=str(trace))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = multiprocessing.start_processes(
        _rank, (ranks, port, config), nprocs=ranks, join=False, start_method="fork"
    )
    while not started.join(timeout=300):
        pass
    return trace


@functools.cache
def _import_all() -> None:
    """What a first optimizer step imports, once for all forks and not in each."""
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()


def _rank(rank: int, ranks: int, port: int, config: Config) -> None:
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    train(config)
