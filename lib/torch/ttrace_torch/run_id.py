"""A text that every run of a job has anew, and all its ranks alike."""

from __future__ import annotations

import uuid
from pathlib import Path

from torch import distributed

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
