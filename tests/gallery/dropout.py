"""Dropout that draws the same masks in every layout, and the state that recomputation restores."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gallery import bugs
from gallery.collectives import local_sequence
from gallery.config import Config
from gallery.init import generator
from gallery.parallel import ProcessMesh
from gallery.ring import zigzag


class _State(NamedTuple):
    step: int
    microbatch: int
    draws: Counter[str]  # of each module so far


class RandomState:
    """What is drawn next. Like a device's generator it moves on with every draw."""

    def __init__(self) -> None:
        self._state = _State(0, 0, Counter())

    def begin(self, step: int, microbatch: int) -> None:
        self._state = _State(step, microbatch, Counter())

    def next(self, name: str) -> str:
        """Names the next draw of a module."""
        draw = self._state.draws[name]
        self._state.draws[name] += 1
        return f"dropout/{name}/step{self._state.step}/microbatch{self._state.microbatch}/{draw}"

    def same_again(self, run: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """`run`, which draws the same whenever it runs."""
        kept = self._copy()

        def restored(x: Tensor) -> Tensor:
            if bugs.active("G13"):
                return run(x)
            current = self._state
            self._state = kept._replace(draws=kept.draws.copy())
            try:
                return run(x)
            finally:
                self._state = current

        return restored

    def _copy(self) -> _State:
        return self._state._replace(draws=self._state.draws.copy())


class Dropout(nn.Module):
    """The hidden layout, of which elements are dropped and the others scaled up.

    The mask is drawn for the whole tensor, then the rank takes its part.
    """

    def __init__(self, config: Config, mesh: ProcessMesh, random: RandomState, name: str) -> None:
        super().__init__()
        self.config, self.mesh = config, mesh
        self.random, self.name = random, name

    def forward(self, x: Tensor) -> Tensor:
        config = self.config
        shape = (config.sequence, config.batch, config.hidden)
        drawn = torch.rand(shape, generator=generator(config.seed, self.random.next(self.name)))
        kept = zigzag(drawn >= config.dropout, self.mesh["cp"])
        if config.sp:
            kept = local_sequence(kept, self.mesh["tp"])
        return x * kept / (1 - config.dropout)
