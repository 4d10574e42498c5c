"""What a specification notes of a tensor that a trace records."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ttrace_torch.specification.graph import Value

# The largest relative difference between factors that are one: they are computed in fp32.
SAME = 1e-6

Place = tuple[str, str, int]  # kind, name, call


class Mark(NamedTuple):
    """A tensor that a trace records.

    token: equal for two marks of the same bits.
    factor: set if the tensor is a factor of the script.
    number: the Python number that the model read from the tensor; None for tensors that a trace
        records.
    """

    value: Value
    token: object
    dtype: str
    shape: tuple[int, ...]
    module: dict[str, str] | None = None
    elements: list[Any] | None = None
    factor: Factor | None = None
    number: float | None = None


class Factor(NamedTuple):
    """A factor that a script multiplies a loss by, before or after it is recorded.

    original: its value, as the step computed it.
    numbers: micro-batch -> the number, where the elements are at hand.
    is_scaled: whether recorded factors must be multiplied by the scale of gradients.
    terms: the number of terms of the sum that it divides, if the factor may follow from that
        number, and so from the data; else 0.
    """

    original: Value
    numbers: dict[int, float]
    is_scaled: bool = True
    terms: int = 0


# This many micro-batches rarely divide by the same number by chance.
_FEWEST = 3


def is_of_step(factor: Factor) -> bool:
    """Whether the divisor of a sum of terms belongs to the step: all micro-batches have the same,
    and it is no multiple of the number of terms of each, padding included."""
    numbers = list(factor.numbers.values())
    if len(numbers) < _FEWEST or not all(math.isfinite(n) and n for n in numbers):
        return False
    if any(abs(n - numbers[0]) > SAME * abs(numbers[0]) for n in numbers):
        return False
    multiple = 1 / (numbers[0] * factor.terms)
    return round(multiple) < 1 or abs(multiple - round(multiple)) > SAME * multiple
