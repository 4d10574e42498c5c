"""Python's garbage collector, which stops while thousands of objects are made that stay.

It would look through all objects of the process several times in vain: in a process that has
imported torch and a model, each time takes a third of a second.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Inside, and in a function that it decorates, nothing is collected. No code of the user's may
    run there."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
