"""How much memory may hold what waits to be written."""

from __future__ import annotations

import os
import re

from ttrace_torch.errors import TraceError

_DEFAULT = 2 << 30


def default_memory() -> int:
    """2 GiB, or a quarter of this machine's memory where that is less."""
    try:
        return min(_DEFAULT, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)
    except (ValueError, OSError, AttributeError):
        return _DEFAULT


def parse_memory(value: int | str, what: str) -> int:
    """Bytes, from a number of them or a text such as "500MB", "4G" or "4GiB".

    Throws TraceError that begins with `what`, where it comes from.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMGT]?)(I?B)?", str(value).strip().upper())
    size = 0
    if match:
        # "MB" is a million, "M" and "MiB" are 2^20.
        base = 1000 if match[3] == "B" else 1024
        size = int(float(match[1]) * base ** " KMGT".index(match[2] or " "))
    if size <= 0:
        raise TraceError(f'{what}{value!r} is no size; say bytes, or for example "500MB" or "4GiB"')
    return size
