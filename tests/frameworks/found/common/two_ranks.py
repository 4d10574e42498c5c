"""Runs a function on two processes that share a gloo group, as the scripts of found/ need it."""

from __future__ import annotations

import os
import socket
import tempfile

import torch
import torch.multiprocessing as multiprocessing
from torch import distributed

RANKS = 2


def run_on_two(function):
    """Calls function(rank, folder) on both ranks; the folder is one for both, and empty."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        # Forked, so that the package is imported once.
        multiprocessing.start_processes(
            _run, (function, port, folder), nprocs=RANKS, start_method="fork"
        )


def _run(rank, function, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCAL_RANK=str(rank))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS))
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    function(rank, folder)
    distributed.barrier()
    distributed.destroy_process_group()
