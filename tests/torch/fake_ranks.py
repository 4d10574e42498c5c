"""One process that plays every rank in turn: process groups that communicate with nobody."""

from __future__ import annotations

from contextlib import contextmanager

from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextmanager
def playing(rank, size, store=None):
    """Inside, this process is `rank` of `size`. Collectives return at once and move nothing.

    store: one that real processes share.
    """
    store = FakeStore() if store is None else store
    distributed.init_process_group("fake", rank=rank, world_size=size, store=store)
    try:
        yield
    finally:
        distributed.destroy_process_group()
