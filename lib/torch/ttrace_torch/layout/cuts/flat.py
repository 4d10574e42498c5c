"""Ranges of the flattened tensor, one for each coordinate: the shards of a flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ttrace_torch.errors import TraceError


def ranges_of(
    ranges: Sequence[tuple[int, int]], shape: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The (start, stop) pairs as tuples.

    Throws where they overlap, leave a gap, or do not end where a tensor of `shape` does.
    """
    found = tuple((int(start), int(stop)) for start, stop in ranges)
    reached = 0
    for start, stop in sorted(found):
        if stop < start:
            raise TraceError(f"Flat: [{start}, {stop}) stops before its start")
        if start == stop:
            continue
        if start != reached:
            raise TraceError(
                f"Flat: [{start}, {stop}) follows the ranges up to {reached}; give every element "
                "to one coordinate"
            )
        reached = stop
    if reached != prod(shape):
        raise TraceError(
            f"Flat: the ranges end at {reached}, but a tensor of shape {list(shape)} has "
            f"{prod(shape)} elements; give every element to one coordinate"
        )
    return found


def flat_length(
    ranges: Sequence[tuple[int, int]], shape: Sequence[int], extents: Sequence[int], index: int
) -> int:
    """Number of elements in range `index`. Throws where the other axes do not leave `shape`."""
    if list(shape) != list(extents):
        raise TraceError(
            f"the flat ranges are those of shape {list(shape)}, but the other axes leave "
            f"{list(extents)}; give Flat(ranges, shape) the shape that they leave"
        )
    start, stop = ranges[index]
    return stop - start
