"""The tracer of a job that is not traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ttrace_torch.base.process import say_for_job
from ttrace_torch.copies import Source
from ttrace_torch.tracer import Tracer


class Inactive(Tracer):
    """A tracer that never records. It looks at no model, adds no hook and writes nothing.

    The calls of `Tracer` do nothing outside of a traced step, and this one never enters a step.
    """

    def __init__(self, failed: str | None = None) -> None:
        """failed: why a job that was to be traced is not."""
        self._failed = failed
        self._reminder = None if failed is None else f"nothing was recorded: {failed}"
        # The attributes that the inherited calls read outside of a step.
        self._step = None
        self._nothing: AbstractContextManager[Tracer] = nullcontext(self)

    def after_update(self, part: Any = None) -> None:
        """Counts nothing."""

    def step(self, number: int | None = None) -> AbstractContextManager[Tracer]:
        """Traces nothing."""
        return self._nothing

    def state(self, name: str, source: Source) -> None:
        """Records nothing."""

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
        """Why a job that was to be traced is not; None if it was not to be."""
        return self._failed

    @property
    def incomplete(self) -> list[str]:
        """Empty."""
        return []

    @property
    def skipped(self) -> list[str]:
        """Empty."""
        return []

    def suggest_layouts(self, reference: str | Path) -> list[str]:
        """Nothing."""
        return []

    def close(self) -> None:
        """Says once more why a job that was to be traced is not."""
        reminder, self._reminder = self._reminder, None
        if reminder is not None:
            say_for_job(reminder)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        """Does what `close` does."""
        self.close()
