"""Which indices of a dimension a coordinate holds, in the order in which it holds them."""

from __future__ import annotations

# (start, length) of each run of indices; none is empty.
Ranges = list[tuple[int, int]]


def appended(ranges: Ranges, start: int, length: int) -> Ranges:
    """`ranges` with [start, start + length) at the end, joined to the last where it goes on."""
    if length == 0:
        return ranges
    if ranges and sum(ranges[-1]) == start:
        return [*ranges[:-1], (ranges[-1][0], ranges[-1][1] + length)]
    return [*ranges, (start, length)]


def total(ranges: Ranges) -> int:
    """Number of indices."""
    return sum(length for _, length in ranges)
