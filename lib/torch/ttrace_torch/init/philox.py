"""Streams of random words: Philox 4×32-10 (Salmon et al., SC 2011), and the keys of the streams.

Philox is a pure function of key and counter, so any element of a stream is computed without the
others. The bits are those of Random123. A key is made of the purpose of the stream, the seed and
the name: schemas/consistent-v1.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ttrace_torch.errors import TraceError

Array = np.ndarray[Any, Any]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)

# FNV-1a.
_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1


def philox4x32(counter: tuple[Array, Array, Array, Array], key: int) -> Array:
    """Four words for every counter: uint32 [n, 4].

    counter: the four words of each counter, uint64 [n] with values below 2^32; overwritten.
    key: 64 bits, word 0 of the key in the lower half.
    """
    c0, c1, c2, c3 = counter
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    # The lower halves of c1 and c3 are the words; the upper halves are masked where they are used.
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


def fnv1a(text: bytes) -> int:
    """FNV-1a with 64 bits (Fowler, Noll, Vo; RFC 9923)."""
    value = _OFFSET
    for byte in text:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def tensor_key(seed: int, name: str) -> int:
    """Key of the values of the tensor called `name`."""
    return _key("tensor", seed, name)


def noise_key(seed: int, step: int, microbatch: object, call: int, name: str) -> int:
    """Key of the perturbation of the output `name` in a noise run.

    microbatch: its number; as "[0, 1]" for several that no dimension separates.
    """
    return _key("noise", seed, step, microbatch, call, name)


def plan_key(seed: int, kind: str, step: int, microbatch: int, call: int, name: str) -> int:
    """Key of a plan's values for the tensor `name` of kind "input" or "grad_output"."""
    return _key("plan", seed, kind, step, microbatch, call, name)


def check_seed(seed: int, what: str) -> int:
    """Returns `seed`. Throws TraceError if it is no int from 0 to 2^64 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _MASK:
        raise TraceError(f"{what}: seed {seed!r} is no integer from 0 to 2^64 - 1")
    return seed


def _key(*parts: object) -> int:
    # Names have no control characters, so different lists of parts give different bytes.
    return fnv1a("\0".join(map(str, parts)).encode())
