"""Numbers of a script, rounded as PyTorch rounds them before it computes with them."""

from __future__ import annotations

import math
from typing import Union

import numpy as np

Number = Union[int, float, bool]

# The types in which PyTorch computes with tensors of a narrow type.
_COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}


def limit_in(value: Number, dtype: str) -> Number:
    """A limit of a clamp, or a number to fill or compare a tensor with, rounded to `dtype`."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    with np.errstate(over="ignore"):
        if dtype == "float16":
            rounded = float(np.float16(np.float32(value)))
        elif dtype == "bfloat16":
            rounded = _as_bfloat16(value)
        elif dtype == "float32":
            rounded = float(np.float32(value))
        else:
            return value
    return rounded if math.isfinite(rounded) else value


def factor_in(value: Number, dtype: str) -> Number:
    """A number that a tensor of the type `dtype` is multiplied by or added to, as PyTorch rounds
    it."""
    return limit_in(value, _COMPUTED_IN.get(dtype, dtype))


def _as_bfloat16(value: float) -> float:
    bits = int(np.float32(value).view(np.uint32))
    # Rounds to nearest, ties to even.
    bits += 0x7FFF + ((bits >> 16) & 1)
    return float(np.uint32((bits & 0xFFFF0000) & 0xFFFFFFFF).view(np.float32))
