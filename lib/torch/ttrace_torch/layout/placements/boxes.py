"""`Boxes`: one hyper-rectangle for each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import Placement, check_count
from ttrace_torch.layout.placements.ranges import Ranges, appended

# Offsets and sizes, one number for each dimension.
Box = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class Boxes(Placement):
    """Rank i holds the i-th box of what the earlier axes left.

    boxes: (offsets, sizes) for each rank; every element is in exactly one box.
    """

    boxes: Sequence[Box]

    json_member = "boxes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes", _checked(self.boxes))

    def to_json(self) -> dict[str, Any]:
        return {"boxes": [[list(offset), list(size)] for offset, size in self.boxes]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Boxes:
        return cls([(tuple(offset), tuple(size)) for offset, size in value["boxes"]])

    def normalised(self, ndim: int, ranks: int, axis: str, what: str) -> Placement:
        own = len(self.boxes[0][0])
        if own != ndim:
            raise TraceError(
                f"{what}: boxes of {own} dimensions on axis {axis}, but the "
                f"tensor has {ndim} dimension(s); give every dimension its offset and size"
            )
        check_count(len(self.boxes), "boxes", ranks, axis, what)
        return self

    def local_ranges(self, extents: Sequence[int], ranks: int, index: int) -> list[Ranges]:
        if prod(extents) and _extents(self.boxes) != list(extents):
            raise TraceError(
                f"the boxes make up {_extents(self.boxes)}, but there are {list(extents)} elements "
                "to cut; give boxes of what the earlier axes leave"
            )
        offset, size = self.boxes[index]
        return [appended([], start, length) for start, length in zip(offset, size)]

    def whole_extents(self, local: Sequence[int], ranks: int) -> list[int]:
        return _extents(self.boxes)

    @property
    def cut_dim(self) -> Literal["all"]:
        return "all"


def _checked(boxes: Sequence[Box]) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """The boxes as tuples. Throws TraceError if they overlap or leave an element to nobody."""
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
    held, whole = sum(prod(size) for _, size in found), prod(_extents(found))
    if held != whole:
        raise TraceError(
            f"Boxes: the boxes hold {held} of the {whole} elements of {_extents(found)}; "
            "give every element to one coordinate"
        )
    return found


def _extents(boxes: Sequence[Box]) -> list[int]:
    """Extents of the union of the boxes."""
    ndim = len(boxes[0][0])
    full = [box for box in boxes if prod(box[1])] or [boxes[0]]
    return [max(offset[d] + size[d] for offset, size in full) for d in range(ndim)]


def _overlap(one: Box, other: Box) -> bool:
    if not prod(one[1]) or not prod(other[1]):
        return False
    return all(a < b + m and b < a + n for a, n, b, m in zip(one[0], one[1], other[0], other[1]))
