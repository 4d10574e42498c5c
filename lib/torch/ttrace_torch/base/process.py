"""Facts and services of this process: its rank, the run's id, exit callbacks, stderr."""

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

_PREFIX = "ttrace_torch/run_id"

# Path -> number of tracers that this process has made for it.
_made: dict[str, int] = {}


def current_rank() -> int:
    """torch.distributed's rank if it is initialised, else the variable RANK, else 0."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Number of ranks of torch.distributed; 1 if it is not initialised."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return 1


def run_id(path: str | Path) -> tuple[str, bool]:
    """Returns an id of the run traced to `path`, new for every run, and whether all ranks share it.

    The ranks share the id through the default store of torch.distributed, without waiting. Without
    a store every rank draws its own, and the merged manifest has that of the lowest rank. A
    restarted job has a new store.
    """
    drawn = uuid.uuid4().hex
    turn = _made[str(path)] = _made.get(str(path), 0) + 1
    if not (distributed.is_available() and distributed.is_initialized()):
        return drawn, False
    if distributed.get_world_size() == 1:
        return drawn, False
    try:
        store = distributed.distributed_c10d._get_default_store()
        shared = store.compare_set(f"{_PREFIX}/{path}/{turn}", "", drawn)
        return bytes(shared).decode() or drawn, True
    except (AttributeError, RuntimeError, ValueError, TypeError):
        # Not every store has compare_set. A run id is not worth a training job.
        return drawn, False


def call_at_exit(method: Callable[[], Any]) -> Callable[[], None]:
    """Calls a bound method when the interpreter ends, if its object still exists and the process
    has not forked since. Returns a function that cancels the call."""
    reference = weakref.WeakMethod(method)
    process = os.getpid()

    def call() -> None:
        found = reference()
        if found is not None and os.getpid() == process:
            found()

    atexit.register(call)
    return lambda: atexit.unregister(call)


def say(text: str) -> None:
    """Prints one line on stderr. A closed stderr is ignored."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"ttrace: {text}", file=sys.stderr, flush=True)
