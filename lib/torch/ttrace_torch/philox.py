"""Philox 4×32-10, the counter-based generator of Salmon et al. (SC 2011), for whole arrays.

A pure function of key and counter, so any element of a stream is made without the others. The bits
are those of lib/synth and of Random123; the streams are defined in schemas/consistent-v1.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox4x32(counter: tuple[Array, Array, Array, Array], key: int) -> Array:
    """Four words for every counter: uint32 [n, 4].

    counter: the four words of each counter, uint64 [n] with values below 2^32; overwritten.
    key: 64 bits, word 0 of the key in the lower half.
    """
    c0, c1, c2, c3 = counter
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    # The lower halves of c1 and c3 are the words; what is above is cut off where they are used.
    for number in range(_ROUNDS):
        k0 = np.uint64(((key & 0xFFFFFFFF) + number * _WEYL[0]) & 0xFFFFFFFF)
        k1 = np.uint64(((key >> 32) + number * _WEYL[1]) & 0xFFFFFFFF)
        np.multiply(c0, _MULTIPLIERS[0], out=p0)
        np.multiply(c2, _MULTIPLIERS[1], out=p1)
        np.right_shift(p1, _32, out=c0)
        np.bitwise_xor(c0, c1, out=c0)
        np.bitwise_xor(c0, k0, out=c0)
        np.bitwise_and(c0, _LOW, out=c0)
        np.right_shift(p0, _32, out=c2)
        np.bitwise_xor(c2, c3, out=c2)
        np.bitwise_xor(c2, k1, out=c2)
        np.bitwise_and(c2, _LOW, out=c2)
        c1, p1 = p1, c1
        c3, p0 = p0, c3
    words = np.empty((*c0.shape, 4), np.uint32)
    for lane, word in enumerate((c0, c1, c2, c3)):
        words[..., lane] = word
    return words


def words_at(key: int, blocks: Array) -> Array:
    """The words of a stream at the counters `blocks`: uint32 [n, 4], elements 4·block ... + 3.

    blocks: uint64 [n]; not changed. The upper half of the counter is zero.
    """
    zero = np.zeros_like(blocks)
    return philox4x32((blocks & _LOW, blocks >> _32, zero, zero.copy()), key)
