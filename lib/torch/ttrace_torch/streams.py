"""Keys of the streams of random words: what a stream is for, the seed, the name.

Defined in schemas/consistent-v1.md; lib/synth/stream.h makes the same ones.
"""

from __future__ import annotations

from ttrace_torch.errors import TraceError

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1


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
    """Key of the disturbance of the output `name` in a noise run.

    microbatch: its number; several that no dimension tells apart as "[0, 1]".
    """
    return _key("noise", seed, step, microbatch, call, name)


def plan_key(seed: int, kind: str, step: int, microbatch: int, call: int, name: str) -> int:
    """Key of what a plan overwrites the tensor `name` of kind "input" or "grad_output" with."""
    return _key("plan", seed, kind, step, microbatch, call, name)


def check_seed(seed: int, what: str) -> int:
    """`seed` itself. Throws where it is no number from 0 to 2^64 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _MASK:
        raise TraceError(f"{what}: seed {seed!r} is no integer from 0 to 2^64 - 1")
    return seed


def _key(*parts: object) -> int:
    # Names have no control characters, so no two lists of parts give the same bytes.
    return fnv1a("\0".join(map(str, parts)).encode())
