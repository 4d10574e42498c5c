"""DTensor's _StridedShard: a rank's part where a later mesh axis cut the dimension first."""

from __future__ import annotations

from ttrace_torch.layout.cuts.chunk import chunk
from ttrace_torch.layout.cuts.ranges import Ranges, appended


def strided_part(stride: int, extent: int, parts: int, index: int) -> Ranges:
    """Part `index` of `parts` of each of `stride` chunks of `extent` elements."""
    held: Ranges = []
    for number in range(stride):
        start, length = chunk(extent, stride, number)
        offset, part = chunk(length, parts, index)
        held = appended(held, start + offset, part)
    return held
