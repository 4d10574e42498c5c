"""A text that every run of a job has anew, and all its ranks alike."""

from __future__ import annotations

import atexit
import os
import sys
import uuid
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from torch import distributed


def current_rank() -> int:
    """torch.distributed's rank where it is initialised, else the variable RANK, else 0."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


_PREFIX = "ttrace_torch/run_id"

# Path -> how many tracers this process has made for it.
_made: dict[str, int] = {}


def run_id(path: str | Path) -> str:
    """Draws an id for the run that is traced to `path`, or finds the one that another rank drew.

    Ranks share it through the store that torch.distributed met by, and wait for nobody. Where there
    is none every rank draws its own; the manifest then has that of the lowest rank. A job that is
    started again has another store.
    """
    drawn = uuid.uuid4().hex
    turn = _made[str(path)] = _made.get(str(path), 0) + 1
    if not (distributed.is_available() and distributed.is_initialized()):
        return drawn
    if distributed.get_world_size() == 1:
        return drawn
    try:
        store = distributed.distributed_c10d._get_default_store()
        shared = store.compare_set(f"{_PREFIX}/{path}/{turn}", "", drawn)
        return bytes(shared).decode() or drawn
    except (AttributeError, RuntimeError, ValueError, TypeError):
        # Not every store can compare; a run id is not worth a training job.
        return drawn


def call_at_exit(method: Callable[[], Any]) -> Callable[[], None]:
    """Has a bound method called when the interpreter ends, if its object is still there and this
    is not a forked process by then. Gives what takes that back."""
    reference = weakref.WeakMethod(method)
    process = os.getpid()

    def call() -> None:
        found = reference()
        if found is not None and os.getpid() == process:
            found()

    atexit.register(call)
    return lambda: atexit.unregister(call)


def say(text: str) -> None:
    """One line on stderr. A closed stderr is no reason to stop either."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"ttrace: {text}", file=sys.stderr, flush=True)
