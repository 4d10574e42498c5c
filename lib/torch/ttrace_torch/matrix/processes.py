"""Starts the ranks of a run, waits for them, and ends them where they hang or one of them dies."""

from __future__ import annotations

import faulthandler
import functools
import gc
import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Callable

import torch
from torch import distributed

from ttrace_torch import variables
from ttrace_torch.base.child import die_with_parent, how_it_ended
from ttrace_torch.matrix.errors import MatrixError

# What the others get to end by themselves, once a rank has died.
_GRACE = 3.0
_LOOPBACK = "/sys/class/net/lo"
# Frames of an error that a reader wants are not those of torch.
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}ttrace_torch{os.sep}matrix{os.sep}")


@dataclass(frozen=True)
class Place:
    """Where a rank runs.

    port: of the store that the ranks share. grouped: whether they are a process group, which one
        process alone need not be.
    backend: "gloo" or "nccl".
    """

    rank: int
    ranks: int
    folder: Path
    limit: float
    port: int
    grouped: bool
    backend: str
    threads: int

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.rank) if self.backend == "nccl" else torch.device("cpu")

    @property
    def log(self) -> Path:
        """What the rank prints."""
        return self.folder / f"rank_{self.rank}.log"

    @property
    def answer(self) -> Path:
        """What the rank returns, or why it does not."""
        return self.folder / f"rank_{self.rank}.json"


Task = Callable[..., Any]
_TCPStore: Any = vars(distributed)["TCPStore"]


def run_ranks(
    task: Task, arguments: tuple[Any, ...], ranks: int, folder: Path, limit: float, **where: Any
) -> list[Any]:
    """Calls `task(place, *arguments)` on every rank of a process group, and returns what each
    returned, which JSON can say.

    Throws MatrixError in one sentence where a rank raises, dies, or has not ended after `limit`
    seconds; no process is left then. What the ranks print goes to files in `folder`.
    where: `grouped`, `backend` and `threads` of `Place`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if start_method() == "fork":
        _preload()
    # Served from here, so that no rank has to find a free port.
    store = _TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    places = [Place(rank, ranks, folder, limit, store.port, **where) for rank in range(ranks)]
    context: Any = multiprocessing.get_context(start_method())
    processes: list[BaseProcess] = []
    try:
        for place in places:
            process = context.Process(target=_run_rank, args=(place, task, arguments))
            _start(process)
            processes.append(process)
        late = _wait(processes, limit)
        died = {r: code for r, p in enumerate(processes) if (code := p.exitcode)}
    finally:
        _end(processes)
    return _answers(places, died, late)


def start_method() -> str:
    """Forking is quick and takes any function; but a process that may have used a GPU cannot."""
    return "spawn" if torch.cuda.is_available() or _autograd_has_threads() else "fork"


def _autograd_has_threads() -> bool:
    """Whether a backward pass would fail in a fork of this process, since autograd has begun
    threads for devices. torch 2.15 begins some without a GPU, if a model is compiled before the
    first backward pass."""
    for name in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # a thread that has ended
            if name.read_bytes().startswith(b"pt_autograd"):
                return True
    return False


@functools.lru_cache(maxsize=1)
def _preload() -> None:
    """Imports what every rank would import for itself, which takes longer than a small step."""
    for name in ("torch.distributed.fsdp", "torch.distributed.tensor.parallel"):
        importlib.import_module(name)
    # A first step of an optimizer imports most of what torch.compile is made of.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()


def _start(process: BaseProcess) -> None:
    """Throws MatrixError where the task cannot be sent to a new process."""
    try:
        process.start()
    except (AttributeError, TypeError, ValueError, ImportError) as error:
        if start_method() == "fork":
            raise
        raise MatrixError(
            "build, loss, optimizer, parallelize and pipeline must be functions at the top of a "
            "module where CUDA is used or a model was compiled before, since ranks are new "
            f"processes: {error}"
        ) from error


def _wait(processes: Sequence[BaseProcess], limit: float) -> list[int]:
    """Waits until all have ended, or one has failed and the others had time to. Returns the ranks
    that were still running when the limit was reached."""
    until = time.monotonic() + limit
    failed = False
    while running := {p.sentinel: rank for rank, p in enumerate(processes) if p.is_alive()}:
        left = until - time.monotonic()
        if left <= 0:
            return [] if failed else sorted(running.values())
        wait(list(running), timeout=left)
        if not failed and any(p.exitcode not in (None, 0) for p in processes):
            failed, until = True, min(until, time.monotonic() + _GRACE)
    return []


def _end(processes: Sequence[BaseProcess]) -> None:
    """Ends the ranks that still run, and what they started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if process.is_alive() and process.pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    # A rank leads a group of its own, unless it was ended before it could.
                    leads = os.getpgid(process.pid) == process.pid
                    (os.killpg if leads else os.kill)(process.pid, number)
        for process in processes:
            process.join(timeout=1.0)


def _answers(places: Sequence[Place], died: Mapping[int, int], late: Sequence[int]) -> list[Any]:
    """What the ranks returned. Throws MatrixError for the first that did not.

    died: the exit codes, not 0, of those that ended by themselves. late: who did not end.
    """
    told: dict[int, dict[str, Any]] = {}
    for place in places:
        with suppress(OSError, ValueError):
            told[place.rank] = json.loads(place.answer.read_text(encoding="utf-8"))
    # Those that talked to a rank that was killed fail, too.
    for rank, code in died.items():
        if rank not in told:
            raise MatrixError(
                f"rank {rank} died{how_it_ended(code)} before it had finished; the other ranks "
                f"were ended{_see(places[rank])}"
            )
    errors = [(rank, answer) for rank, answer in told.items() if "error" in answer]
    if errors:
        # The ranks that waited for it fail later than the rank that failed first.
        rank, answer = min(errors, key=lambda one: one[1]["time"])
        prefix = "" if answer["is_ours"] else f"rank {rank} raised "
        raise MatrixError(f"{prefix}{answer['error']}{_see(places[rank], answer['is_ours'])}")
    if late:
        first = places[late[0]]
        raise MatrixError(
            f"{_ranks(late, len(places))} had not ended after {first.limit:g} s and "
            f"{'was' if len(late) == 1 else 'were'} ended; limit= allows more; where it stood: "
            f"{first.log}"
        )
    for place in places:
        if place.rank not in told:
            raise MatrixError(f"rank {place.rank} ended without an answer{_see(place)}")
    return [told[place.rank]["value"] for place in places]


def _ranks(late: Sequence[int], ranks: int) -> str:
    if len(late) == ranks and ranks > 1:
        return f"all {ranks} ranks"
    return f"rank {late[0]}" if len(late) == 1 else f"ranks {', '.join(map(str, late))}"


def _see(place: Place, is_ours: bool = False) -> str:
    return "" if is_ours else f" ({place.log})"


def _run_rank(place: Place, task: Task, arguments: tuple[Any, ...]) -> None:
    """The life of one rank, in its own process."""
    os.setsid()
    die_with_parent()
    # Keeps the garbage collector from destroying objects that were forked from the parent.
    gc.freeze()
    _print_to(place.log)
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(0.8 * place.limit, place.limit - 5))
    for name in variables.OF_TRACE:
        os.environ.pop(name, None)
    if os.path.exists(_LOOPBACK):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    numbers = {"RANK": place.rank, "LOCAL_RANK": place.rank, "WORLD_SIZE": place.ranks}
    os.environ.update({name: str(number) for name, number in numbers.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(place.port))
    answer: dict[str, Any] = {}
    try:
        torch.set_num_threads(place.threads)
        if place.backend == "nccl":
            torch.cuda.set_device(place.device)
        _join(place)
        answer["value"] = task(place, *arguments)
    except BaseException as error:
        ours = isinstance(error, MatrixError)
        said = str(error) if ours else _described(error)
        answer.update(error=said, is_ours=ours, time=time.time())
        traceback.print_exc()
    place.answer.write_text(json.dumps(answer), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    if "error" in answer:
        # Others may wait for this rank inside a collective: its process group is left as it is.
        os._exit(1)
    if distributed.is_initialized():
        distributed.destroy_process_group()
    os._exit(0)


def _join(place: Place) -> None:
    if not place.grouped:
        return
    patience = timedelta(seconds=place.limit + 60)
    store = _TCPStore("127.0.0.1", place.port, place.ranks, False, timeout=patience)
    distributed.init_process_group(
        place.backend, store=store, rank=place.rank, world_size=place.ranks, timeout=patience
    )


def _print_to(path: Path) -> None:
    """Sends what this process prints to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def _described(error: BaseException) -> str:
    """An error on one line, with the place in the user's own code that it came from."""
    first = (str(error).strip().splitlines() or [""])[0][:300]
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not any(part in frame.filename for part in _LIBRARIES):
            where = f" at {frame.filename}:{frame.lineno}"
    return f"{type(error).__name__}: {first}{where}" if first else f"{type(error).__name__}{where}"
