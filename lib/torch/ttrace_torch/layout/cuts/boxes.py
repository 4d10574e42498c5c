"""Hyper-rectangles, one for each coordinate, that together hold every element once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ttrace_torch.errors import TraceError

# Offsets and sizes, one number for each dimension.
Box = tuple[Sequence[int], Sequence[int]]


def boxes_of(boxes: Sequence[Box]) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """The boxes as tuples. Throws where they overlap or leave an element to nobody."""
    found = tuple((tuple(map(int, offset)), tuple(map(int, size))) for offset, size in boxes)
    if not found:
        raise TraceError("Boxes([]): there is no box; give one for each coordinate")
    ndim = len(found[0][0])
    for number, (offset, size) in enumerate(found):
        if len(offset) != ndim or len(size) != ndim or min((*offset, *size), default=0) < 0:
            raise TraceError(
                f"Boxes: box {number}, offset {list(offset)} size {list(size)}, is none of {ndim} "
                "dimensions; give offsets and sizes of every dimension, none negative"
            )
    for number, box in enumerate(found):
        for other in range(number):
            if _overlap(box, found[other]):
                raise TraceError(
                    f"Boxes: boxes {other} and {number} overlap; give every element to one "
                    "coordinate"
                )
    held, whole = sum(prod(size) for _, size in found), prod(boxes_extents(found))
    if held != whole:
        raise TraceError(
            f"Boxes: the boxes hold {held} of the {whole} elements of {boxes_extents(found)}; "
            "give every element to one coordinate"
        )
    return found


def boxes_extents(boxes: Sequence[Box]) -> list[int]:
    """Extents of what the boxes make up together."""
    ndim = len(boxes[0][0])
    full = [box for box in boxes if prod(box[1])] or [boxes[0]]
    return [max(offset[d] + size[d] for offset, size in full) for d in range(ndim)]


def box_part(boxes: Sequence[Box], extents: Sequence[int], index: int) -> list[tuple[int, int]]:
    """(start, length) of box `index` in every dimension.

    Throws where the boxes do not make up an array of `extents`.
    """
    if prod(extents) and boxes_extents(boxes) != list(extents):
        raise TraceError(
            f"the boxes make up {boxes_extents(boxes)}, but there are {list(extents)} elements to "
            "cut; give boxes of what the earlier axes leave"
        )
    offset, size = boxes[index]
    return list(zip(offset, size))


def _overlap(one: Box, other: Box) -> bool:
    if not prod(one[1]) or not prod(other[1]):
        return False
    return all(a < b + m and b < a + n for a, n, b, m in zip(one[0], one[1], other[0], other[1]))
