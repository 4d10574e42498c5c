"""How long traced steps take, and the others."""

from __future__ import annotations

import time
from collections import deque
from statistics import median

# A job of weeks keeps the latest times only.
_MOST = 64


class StepTimes:
    """Times from the beginning of each step to that of the next one, or to the end."""

    def __init__(self) -> None:
        self._traced: deque[float] = deque(maxlen=_MOST)
        self._untraced: deque[float] = deque(maxlen=_MOST)
        self._runs: deque[float] | None = None
        self._since = 0.0
        self._first_is_traced: bool | None = None

    def begin(self, is_traced: bool) -> None:
        """Notes that a step begins."""
        self.end()
        if self._first_is_traced is None:
            self._first_is_traced = is_traced
        self._runs = self._traced if is_traced else self._untraced
        self._since = time.perf_counter()

    def end(self) -> None:
        """Notes that the step that runs, if any, has ended, and none begins."""
        if self._runs is not None:
            self._runs.append(time.perf_counter() - self._since)
        self._runs = None

    def cost(self) -> str:
        """What a traced step cost, in words; empty without one."""
        if not self._traced:
            return ""
        traced = median(self._traced)
        if not self._untraced:
            return f"in {_seconds(traced)}"
        more = max(0.0, traced - median(self._untraced))
        # A job's first step is slower than others for reasons of its own.
        other = "a later, untraced step" if self._is_first_alone() else "an untraced step"
        return f"{_seconds(more)} more than {other}"

    def _is_first_alone(self) -> bool:
        return bool(self._first_is_traced) and len(self._traced) == 1


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"
