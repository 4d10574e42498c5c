"""Words to numbers, in integer arithmetic and exactly rounded steps: the same bits everywhere.

No logarithm and no cosine, whose last bit differs between math libraries: normal numbers come from
a table of quantiles, between whose entries they lie evenly. See schemas/consistent-v1.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ttrace_torch.normal_table import QUANTILES

Array = np.ndarray[Any, Any]

# Normal numbers are integers in units of 2^-28 standard deviations.
UNIT = 2.0**-28

_TABLE = np.array(QUANTILES, np.int64)
_DROPS = np.append(_TABLE[:-1] - _TABLE[1:], 0)
_TAIL = np.uint32(0x7FFFFFFF)
_ONE = np.uint32(1)
# A binary64 has 52 bits of mantissa: the first 3 choose the entry, the next 28 what is between.
_ENTRY, _FIRST = np.int64(49), np.int64(1023 << 3)
_REST, _BETWEEN = np.int64((1 << 49) - 1), np.int64(21)


def uniform(words: Array) -> Array:
    """k · 2^-23 - 1 for the upper 24 bits k of each word: float32 in [-1, 1), exact.

    words: uint32 of any shape.
    """
    values: Array = (words >> np.uint32(8)).astype(np.float32)
    values *= np.float32(2.0**-23)
    values -= np.float32(1)
    return values


def normal_units(words: Array) -> Array:
    """Normal numbers in units of 2^-28 standard deviations: int64, at most 6.34 of them away.

    words: uint32 of any shape. The top bit is the sign; v = 2 · (the rest) + 1 the probability, in
    units of 2^-33, of lying further out on that side.
    """
    tail = words & _TAIL
    tail <<= _ONE
    tail |= _ONE
    # As a binary64, exact, v shows its octave and what follows its first bit.
    bits = tail.astype(np.float64).view(np.int64)
    entry = bits >> _ENTRY
    entry -= _FIRST
    bits &= _REST
    bits >>= _BETWEEN
    bits *= _DROPS.take(entry)
    bits >>= np.int64(28)
    units: Array = _TABLE.take(entry)
    units -= bits
    # Two's complement: -x is (x ^ -1) - (-1).
    sign = -(words >> np.uint32(31)).astype(np.int64)
    units ^= sign
    units -= sign
    return units


def normal(words: Array, mean: float, std: float) -> Array:
    """mean + std · n, formed in binary64 and rounded to float32.

    Three roundings at most: of std · n, of the sum, and to float32.
    """
    values: Array = normal_units(words).astype(np.float64)
    values *= UNIT
    values *= std
    values += mean
    rounded: Array = values.astype(np.float32)
    return rounded
