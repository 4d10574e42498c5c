"""The output of a run that writes only a specification."""

from __future__ import annotations

from typing import Any

from ttrace_torch.base.step_times import StepTimes
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.write.background import Failure
from ttrace_torch.write.output import Output


class NoOutput(Output):
    """Writes nothing."""

    closed_last = False

    def suggestions(self, *_: Any) -> list[str]:
        """None."""
        return []

    def __init__(self, meshes: Meshes, rank: int) -> None:
        self.meshes = meshes
        self.rank = rank
        self.skipped: set[str] = set()
        self.failure = Failure(rank)
        self.times = StepTimes()

    def put(self, *_: Any) -> None:
        """Does nothing."""

    def write(self, *_: Any) -> None:
        """Does nothing."""

    def recorded_kind(self, kind: str) -> bool:
        """False."""
        return False

    def drop(self) -> None:
        """Does nothing."""

    def finish(self, *_: Any) -> None:
        """Does nothing."""

    def discard(self) -> None:
        """Does nothing."""
