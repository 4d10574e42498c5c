"""What went wrong while a trace was written: told at once and at the end, never thrown.

A full disk is no reason to stop a training job that runs for weeks.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress


class Failure:
    """The first error of a rank's tracer; None until there is one."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._lock = threading.Lock()
        self.message: str | None = None

    def record(self, doing: str, error: BaseException) -> None:
        """Takes note of `error`, met while `doing` something, and prints it; later ones are not."""
        with self._lock:
            if self.message is not None:
                return
            text = str(error) or type(error).__name__
            self.message = f"rank {self._rank} stopped recording: {doing}: {text}"
        say(f"{self.message}; training goes on without it")

    def remind(self, what_is_left: str) -> None:
        """Prints the message again, with what there is of the trace."""
        if self.message is not None:
            say(f"{self.message}; {what_is_left}")


def say(text: str) -> None:
    """One line on stderr. A closed stderr is no reason to stop either."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"ttrace: {text}", file=sys.stderr, flush=True)
