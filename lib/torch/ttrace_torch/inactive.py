"""The tracer of a job that is not traced: every call returns what it should and does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ttrace_torch.tracer import Tracer


class Inactive(Tracer):
    """A tracer that never records. It knows no model, puts no hook and writes nothing.

    Outside of a traced step a tracer's calls do nothing, and this one never enters a step.
    """

    def __init__(self) -> None:
        # A tracer's own attributes would need a model; these are what its idle calls look at.
        self._step = None
        self._nothing: AbstractContextManager[Tracer] = nullcontext(self)

    def step(self, number: int | None = None) -> AbstractContextManager[Tracer]:
        """Traces nothing, whatever the number."""
        return self._nothing

    @contextmanager
    def microbatch(
        self, number: int | Sequence[int], dim: int = 0, of: int | None = None
    ) -> Iterator[Tracer]:
        """Does nothing."""
        yield self

    @property
    def active(self) -> bool:
        """False."""
        return False

    @property
    def failed(self) -> str | None:
        """None."""
        return None

    @property
    def skipped(self) -> list[str]:
        """Nothing."""
        return []

    def close(self) -> None:
        """Does nothing."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        """Does nothing."""
