"""Runs the trainer in processes forked from this one: importing torch takes longer than a run."""

import dataclasses
import functools
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

import ttrace_torch.collector  # noqa: F401  what the forks import need not be imported in each of them
from gallery.config import Config, parse
from gallery.train import train


@dataclass(frozen=True)
class Trained:
    steps: list[dict[str, float]]  # step, loss, grad_norm
    errors: str  # what the processes wrote on stderr, rank after rank


def trained(*options: str) -> Trained:
    """Trains as the command line says, with as many processes as its mesh takes."""
    config = parse(list(options))
    with tempfile.TemporaryDirectory() as folder:
        _fork(functools.partial(_train_into, config, Path(folder)), config.ranks)
        texts = {
            stream: [(Path(folder) / f"{stream}{rank}").read_text() for rank in range(config.ranks)]
            for stream in ("out", "err")
        }
    # Gloo too may write to stdout.
    lines = [line for text in texts["out"] for line in text.splitlines() if line.startswith("{")]
    return Trained([json.loads(line) for line in lines], "".join(texts["err"]))


def traced(config: Config, trace: Path) -> Path:
    """Trains with as many processes as the mesh takes; they write `trace`."""
    _fork(functools.partial(train, dataclasses.replace(config, trace=str(trace))), config.ranks)
    return trace


def traced_in_turn(configs: Iterable[Config]) -> None:
    """Trains runs of one process, one after the other in the same fork; each says its trace."""
    _fork(functools.partial(_train_all, list(configs)), 1)


def _train_all(configs: Sequence[Config]) -> None:
    for config in configs:
        train(config)


def _fork(work: Callable[[], None], ranks: int) -> None:
    """Calls `work` in as many processes, and raises what fails in one of them."""
    _import_all()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = multiprocessing.start_processes(
        _rank, (ranks, port, work), nprocs=ranks, join=False, start_method="fork"
    )
    while not started.join(timeout=300):
        pass


@functools.cache
def _import_all() -> None:
    """What a first optimizer step imports, once for all forks and not in each."""
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()


def _rank(rank: int, ranks: int, port: int, work: Callable[[], None]) -> None:
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    work()


def _train_into(config: Config, folder: Path) -> None:
    for descriptor, stream in ((1, "out"), (2, "err")):
        file = open(folder / f"{stream}{os.environ['RANK']}", "w", buffering=1)
        os.dup2(file.fileno(), descriptor)  # for what is not Python
        setattr(sys, f"std{stream}", file)
    train(config)
