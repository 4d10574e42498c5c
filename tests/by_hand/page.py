"""Runs the trainer of lib/torch/docs/sharded_by_hand.md, as it is or with a bug edited into it."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

import ttrace_torch.collector  # noqa: F401  imported once here, instead of in every forked process

PAGE = Path(__file__).resolve().parents[2] / "lib" / "torch" / "docs" / "sharded_by_hand.md"


def trainer() -> str:
    """The page's first block of Python."""
    return re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)[1]


def edited(source: str, *edits: tuple[str, str]) -> str:
    """`source` with texts replaced. Each must stand in it exactly once."""
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def train(source: str, out: Path, dp: int = 1, tp: int = 1, sp: int = 0, **settings: str) -> str:
    """Trains in dp · tp forked processes. Returns what they wrote to stderr."""
    ranks = dp * tp
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()  # imports what a first step needs
    said = {"DP": dp, "TP": tp, "SP": sp, "TTRACE_OUT": out, "TTRACE_STEPS": 0, **settings}
    errors = out.with_name(out.name + ".stderr")
    started = multiprocessing.start_processes(
        _rank, (ranks, port, source, said, errors), nprocs=ranks, join=False, start_method="fork"
    )
    while not started.join(timeout=300):
        pass
    return errors.read_text()


def _rank(rank, ranks, port, source, settings, errors):
    place = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in {**place, **settings}.items()})
    sys.stderr = open(errors, "a", buffering=1)
    os.dup2(sys.stderr.fileno(), 2)
    torch.set_num_threads(1)
    scope: dict = {"__name__": "__main__"}
    exec(compile(source, "train.py", "exec"), scope)
    if ranks > 1:
        scope["dist"].destroy_process_group()
