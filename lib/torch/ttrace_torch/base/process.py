"""Facts and services of this process: its rank, the run's id, exit callbacks, stderr."""

from __future__ import annotations

import atexit
import os
import sys
import time
import uuid
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from torch import distributed

_PREFIX = "ttrace_torch"

# The process that imported this module, and when.
_imported = os.getpid(), time.time()

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


def job_size() -> int:
    """Number of ranks; WORLD_SIZE counts too, since the process may join its group later."""
    try:
        said = int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        said = 1
    return max(world_size(), said)


def run_id(path: str | Path) -> tuple[str, bool]:
    """Returns an id of the run traced to `path`, new for every run, and whether all ranks share it.

    Without a store every rank draws its own, and the merged manifest has that of the lowest rank.
    Ranks agree by the last name of `path`: nodes may have their folders at different places.
    """
    name = Path(path).name
    turn = _made[name] = _made.get(name, 0) + 1
    return settle(f"run_id/{name}/{turn}", uuid.uuid4().hex)


def settle(topic: str, proposal: str) -> tuple[str, bool]:
    """Returns what the ranks settle on, the first proposal that any of them makes for `topic`, and
    whether all ranks share it.

    They do so through the default store of torch.distributed, without waiting for each other.
    Without a store every rank gets its own proposal.
    """
    if world_size() == 1:
        return proposal, False
    try:
        store = distributed.distributed_c10d._get_default_store()
        key, stamped = f"{_PREFIX}/{topic}", f"{time.time():.3f} {proposal}"
        shared = bytes(store.compare_set(key, "", stamped)).decode()
        if _is_of_an_earlier_attempt(shared):
            shared = bytes(store.compare_set(key, shared, stamped)).decode()
        return shared.split(" ", 1)[1], True
    except (AttributeError, RuntimeError, ValueError, TypeError, IndexError):
        # Not every store has compare_set. Agreeing is not worth ending a training job.
        return proposal, False


def _is_of_an_earlier_attempt(stamped: str) -> bool:
    """Whether a proposal was made before this process began.

    A job that torchrun restarts may have the store of its first attempt. Its ranks settle nothing
    before they have joined a group, that is before all processes have begun.
    """
    return float(stamped.split(" ", 1)[0]) < _began()


def _began() -> float:
    """When this process began, as time.time() counts; 0 if the system does not tell."""
    try:
        after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2]
        since_boot = int(after_name.split()[19]) / os.sysconf("SC_CLK_TCK")
        began = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    # If the result lies after this module's import, the clocks disagree and it means nothing.
    importer, when = _imported
    return 0.0 if importer == os.getpid() and began > when else began


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


def say_for_job(text: str) -> None:
    """Prints one line on stderr, once for all ranks that say the same and share a store."""
    rank = str(current_rank())
    if settle(f"said/{text}", rank)[0] == rank:
        say(text)


def say(text: str) -> None:
    """Prints one line on stderr. A closed stderr is ignored."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"ttrace: {text}", file=sys.stderr, flush=True)
