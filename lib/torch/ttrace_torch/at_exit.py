"""What becomes of a trace whose tracer nobody closed."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any, Callable


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
