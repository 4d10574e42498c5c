"""Runs the trainers of the pages of lib/torch/docs, as they are or with a bug edited into them."""

from __future__ import annotations

import os
import re
import socket
import sys
from math import prod
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

import ttrace_torch.collector  # noqa: F401  imported once here, instead of in every forked process

PAGES = Path(__file__).resolve().parents[2] / "lib" / "torch" / "docs"


def trainer(page: str = "sharded_by_hand") -> str:
    """The page's first block of Python."""
    return re.search(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.S)[1]


def edited(source: str, *edits: tuple[str, str]) -> str:
    """`source` with texts replaced. Each must stand in it exactly once."""
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def train(source: str, out: Path, sp: int = 0, **settings: int | str) -> str:
    """Trains in dp · tp · pp · ep forked processes. Returns what they wrote to stderr."""
    sizes = {axis: int(settings.pop(axis, 1)) for axis in ("dp", "tp", "pp", "ep")}
    ranks = prod(sizes.values())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()  # imports what a first step needs
    axes = {axis.upper(): size for axis, size in {**sizes, "sp": sp}.items()}
    said = {**axes, "TTRACE_OUT": out, "TTRACE_STEPS": 0, **settings}
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
