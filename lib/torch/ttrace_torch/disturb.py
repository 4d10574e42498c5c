"""Noise runs: the first activation disturbed by one rounding.

The spread of the results under such a disturbance is what a correct parallel run may differ by. It
is defined for runs of the reference, in one process: the random numbers go by position in the local
tensor, so a cut tensor would be disturbed otherwise than the whole one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from ttrace_torch import dtypes
from ttrace_torch.batches import Batch
from ttrace_torch.dtensor import is_dtensor
from ttrace_torch.errors import TraceError

_WIDER = {
    torch.float64: torch.float64,
    torch.float32: torch.float64,
}


@dataclass(frozen=True)
class Disturb:
    """Multiplies the first floating-point output of the first module to return one by (1 + ε·u).

    u is uniform in [-1, 1], one number per element, seeded by (seed, step, micro-batch, module).
    epsilon: ε; by default the machine epsilon of the output's dtype (float32: 2^-23, bfloat16:
        2^-7, float16: 2^-10, float64: 2^-52).
    """

    seed: int
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.seed < 0 or (self.epsilon is not None and not self.epsilon > 0):
            raise TraceError(f"{self}: the seed is not negative, epsilon is positive")


class Disturber:
    """Applies a `Disturb` to the same module in every micro-batch of every step."""

    def __init__(self, disturb: Disturb) -> None:
        self._disturb = disturb
        self._at: str | None = None
        self._epsilon = disturb.epsilon

    def takes(self, name: str) -> bool:
        """Whether module `name` is the one to disturb, or may become it."""
        return self._at in (None, name)

    def applied_to(
        self, tensor: torch.Tensor, step: int, microbatch: Batch, name: str
    ) -> torch.Tensor:
        """The disturbed tensor: same shape and dtype, in the same graph. Settles on module `name`.

        The product is formed in a wider type and rounded once.
        """
        if is_dtensor(tensor):
            raise TraceError(
                f"output of {name} is a DTensor: a noise run is a run of the reference, in one "
                "process"
            )
        if self._at is None:
            self._at = name
        if self._epsilon is None:
            self._epsilon = dtypes.DTYPES[tensor.dtype].epsilon
        wide = _WIDER.get(tensor.dtype, torch.float32)
        text = f"{self._disturb.seed}\0{step}\0{microbatch}\0{name}"
        digest = hashlib.sha256(text.encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        u = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1
        factor = (1 + self._epsilon * u).to(device=tensor.device, dtype=wide)  # type: ignore[operator]
        return (tensor.to(wide) * factor).to(tensor.dtype)

    def facts(self) -> dict[str, Any] | None:
        """The manifest's `run.noise`, None before anything was disturbed."""
        if self._at is None:
            return None
        return {"seed": self._disturb.seed, "epsilon": self._epsilon, "at": self._at}
