"""Follows several optimizers of one model, such as Muon for matrices and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Callable

from ttrace_torch.base.names import ModelNames
from ttrace_torch.optimizer.closures import Again
from ttrace_torch.optimizer.state import StateTensor
from ttrace_torch.optimizer.watch import OptimizerWatch


class OptimizersWatch:
    """Follows optimizers that make one step each.

    before: called before the first of them makes its step, when its gradients are final. after:
        after the last one has. again: as for `OptimizerWatch`.
    """

    def __init__(
        self,
        optimizers: Sequence[Any],
        before: Callable[[], None],
        after: Callable[[], None],
        again: Again | None = None,
    ) -> None:
        self._before = before
        self._after = after
        self._begun: set[int] = set()
        self._count = len(optimizers)
        self._all = [
            OptimizerWatch(one, partial(self._begin, turn), partial(self._end, turn), again)
            for turn, one in enumerate(optimizers)
        ]

    def remove(self) -> None:
        """Removes the hooks."""
        for watch in self._all:
            watch.remove()

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's entries for the coming steps of all optimizers."""
        return [entry for watch in self._all for entry in watch.entries(step, names)]

    def states(self, names: ModelNames) -> Iterator[StateTensor]:
        """The state of all optimizers."""
        for watch in self._all:
            yield from watch.states(names)

    def held(self, names: ModelNames) -> set[str] | None:
        """The parameters that the groups of all optimizers hold."""
        known = [one for watch in self._all if (one := watch.held(names)) is not None]
        return set().union(*known) if known else None

    def _begin(self, turn: int) -> None:
        # A second step of one of them begins the next round.
        if not self._begun or turn in self._begun:
            self._begun.clear()
            self._before()
        self._begun.add(turn)

    def _end(self, turn: int) -> None:
        if len(self._begun) == self._count:
            self._begun.clear()
            self._after()
