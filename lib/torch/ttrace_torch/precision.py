"""In which precision a value was computed, where that is not the one it is stored in.

The rule, in one place. A step computes in the narrowest floating-point type among its parameters
and its modules' outputs: a bf16 model's loss and gradient norm carry bf16's rounding errors even
where they are stored as float32 or float64. So every floating-point value stored in a wider type is
marked, except what was not computed in the step: parameters before it, buffers, and what the whole
model received.
"""

from __future__ import annotations

import torch

from ttrace_torch import dtypes
from ttrace_torch.names import ROOT

GIVEN_KINDS = frozenset({"param", "buffer"})


class StepPrecision:
    """The narrowest floating-point type that a step has shown so far."""

    def __init__(self) -> None:
        self._narrowest: dtypes.Dtype | None = None

    def note(self, tensor: torch.Tensor) -> None:
        """Takes a parameter or a module's output into account."""
        dtype = dtypes.of(tensor)
        if dtype is not None and _narrower(dtype, self._narrowest):
            self._narrowest = dtype

    def computed_in(self, kind: str, name: str, stored: str) -> str | None:
        """Name of the dtype a tensor was computed in, None where it is the stored one."""
        given = kind in GIVEN_KINDS or (kind == "input" and name.split("[")[0] == ROOT)
        if given or dtypes.BY_NAME[stored].epsilon is None or self._narrowest is None:
            return None
        narrower = _narrower(self._narrowest, dtypes.BY_NAME[stored])
        return self._narrowest.name if narrower else None


def _narrower(one: dtypes.Dtype, other: dtypes.Dtype | None) -> bool:
    if one.epsilon is None:
        return False
    return other is None or other.epsilon is None or one.epsilon > other.epsilon
