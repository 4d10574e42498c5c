"""Follows several optimizers of one model, such as Muon for matrices and AdamW for the rest, or
those of a generator and its critic.

They may make their steps at different times: between two of them other micro-batches may run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Callable

import torch

from ttrace_torch.base.names import ModelNames
from ttrace_torch.optimizer.closures import Again
from ttrace_torch.optimizer.state import StateTensor
from ttrace_torch.optimizer.watch import OptimizerWatch


class OptimizersWatch:
    """Follows optimizers that make one step each in a step of the training loop, or none.

    parts: the watch of each.
    before, after: called around the step of each, with the watch of that one; `before` when its
        gradients are final. again: as for `OptimizerWatch`.
    """

    def __init__(
        self,
        optimizers: Sequence[Any],
        before: Callable[[OptimizerWatch], None],
        after: Callable[[OptimizerWatch], None],
        again: Again | None = None,
    ) -> None:
        def followed(turn: int, tell: Callable[[OptimizerWatch], None]) -> None:
            tell(self.parts[turn])

        self.parts = [
            OptimizerWatch(
                one, partial(followed, turn, before), partial(followed, turn, after), again
            )
            for turn, one in enumerate(optimizers)
        ]

    def remove(self) -> None:
        """Removes the hooks."""
        for watch in self.parts:
            watch.remove()

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's entries for the coming steps of all optimizers."""
        return [entry for watch in self.parts for entry in watch.entries(step, names)]

    def states(self, names: ModelNames) -> Iterator[StateTensor]:
        """The state of all optimizers."""
        for watch in self.parts:
            yield from watch.states(names)

    def held(self, names: ModelNames) -> set[str] | None:
        """The parameters that the groups of all optimizers hold."""
        known = [one for watch in self.parts if (one := watch.held(names)) is not None]
        return set().union(*known) if known else None

    def masters(self, names: ModelNames) -> dict[str, torch.Tensor]:
        """The masters of all optimizers."""
        return {name: one for watch in self.parts for name, one in watch.masters(names).items()}

    def part_of(self, optimizer: Any) -> OptimizerWatch | None:
        """The watch of one of the optimizers."""
        return next((one for one in self.parts if one.optimizer is optimizer), None)
