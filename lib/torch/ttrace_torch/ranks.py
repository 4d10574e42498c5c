"""Which rank this process is."""

from __future__ import annotations

import os

from torch import distributed


def current_rank() -> int:
    """torch.distributed's rank where it is initialised, else the variable RANK, else 0."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))
