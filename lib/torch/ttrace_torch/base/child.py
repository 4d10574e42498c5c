"""Processes that this one starts: that they end with it, and how they ended."""

from __future__ import annotations

import ctypes
import signal
from contextlib import suppress

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def die_with_parent() -> None:
    """Ends this process when its parent ends, killed or not, where the system (Linux) can see to
    it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """The end of a process in words: " with exit code 3", or " by SIGSEGV" for code -11."""
    if code >= 0:
        return f" with exit code {code}"
    with suppress(ValueError):
        return f" by {signal.Signals(-code).name}"
    return f" by signal {-code}"
