"""What a placement that cuts leaves at a coordinate, whichever placement it is."""

from __future__ import annotations

from collections.abc import Sequence

from ttrace_torch.layout.cuts.boxes import box_part
from ttrace_torch.layout.cuts.chunk import shard_part
from ttrace_torch.layout.cuts.ranges import Ranges, total
from ttrace_torch.layout.cuts.segments import segments_part
from ttrace_torch.layout.cuts.strided import strided_part
from ttrace_torch.layout.cuts.zigzag import zigzag_part
from ttrace_torch.layout.placement import (
    DIMENSION_CUTS,
    Boxes,
    Cut,
    Placement,
    Segments,
    Shard,
    Strided,
)


def dimension_part(placement: Cut, extent: int, parts: int, index: int) -> Ranges:
    """What coordinate `index` of `parts` holds of a dimension of `extent` elements.

    Throws TraceError where the placement's numbers contradict `extent`.
    """
    if isinstance(placement, Shard):
        return shard_part(placement.sizes, extent, parts, index)
    if isinstance(placement, Strided):
        return strided_part(placement.stride, extent, parts, index)
    if isinstance(placement, Segments):
        told = (placement.segments, placement.repeat, placement.sizes)
        return segments_part(*told, extent, parts, index)
    return zigzag_part(extent, parts, index)


def extents_left(placement: Placement, extents: Sequence[int], parts: int, index: int) -> list[int]:
    """Extents of the array that coordinate `index` of `parts` keeps of an array of `extents`.

    Flat ranges and rows, which the extents say nothing of, leave them. Throws as `dimension_part`.
    """
    left = list(extents)
    if isinstance(placement, DIMENSION_CUTS):
        ranges = dimension_part(placement, left[placement.dim], parts, index)
        left[placement.dim] = total(ranges)
    elif isinstance(placement, Boxes):
        left = [length for _, length in box_part(placement.boxes, left, index)]
    return left
