"""Which indices of a dimension a rank holds, in local order, and the chunks of `torch.chunk`."""

from __future__ import annotations

# (start, length) of each run of indices; none is empty.
Ranges = list[tuple[int, int]]


def appended(ranges: Ranges, start: int, length: int) -> Ranges:
    """`ranges` with [start, start + length) appended, joined to the last run if contiguous."""
    if length == 0:
        return ranges
    if ranges and sum(ranges[-1]) == start:
        return [*ranges[:-1], (ranges[-1][0], ranges[-1][1] + length)]
    return [*ranges, (start, length)]


def total(ranges: Ranges) -> int:
    """Number of indices."""
    return sum(length for _, length in ranges)


def selected(held: Ranges, positions: Ranges) -> Ranges:
    """The indices of `held` at the local positions `positions`."""
    found: Ranges = []
    for start, length in positions:
        passed = 0
        for first, count in held:
            low, high = max(start, passed), min(start + length, passed + count)
            if low < high:
                found = appended(found, first + low - passed, high - low)
            passed += count
    return found


def chunk(extent: int, chunks: int, index: int) -> tuple[int, int]:
    """Start and length of chunk `index` of `chunks`, as `torch.chunk` cuts `extent` elements.

    Chunks have ceil(extent / chunks) elements, the last ones fewer or none.
    """
    width = -(-extent // chunks)
    start = min(index * width, extent)
    return start, min(width, extent - start)
