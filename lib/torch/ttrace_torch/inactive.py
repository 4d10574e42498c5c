"""The tracer of a job that is not traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ttrace_torch.tracer import Tracer


class Inactive(Tracer):
    """A tracer that never records. It looks at no model, adds no hook and writes nothing.

    The calls of `Tracer` do nothing outside of a traced step, and this one never enters a step.
    """

    def __init__(self) -> None:
        # The attributes that the inherited calls read outside of a step.
        self._step = None
        self._nothing: AbstractContextManager[Tracer] = nullcontext(self)

    def step(self, number: int | None = None) -> AbstractContextManager[Tracer]:
        """Traces nothing."""
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
    def incomplete(self) -> list[str]:
        """Empty."""
        return []

    @property
    def skipped(self) -> list[str]:
        """Empty."""
        return []

    def close(self) -> None:
        """Does nothing."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        """Does nothing."""
