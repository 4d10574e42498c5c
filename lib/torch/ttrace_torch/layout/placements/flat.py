"""`Flat`: ranges of the flattened tensor, as the shards of a flat buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import Placement, check_count, whole_ranges
from ttrace_torch.layout.placements.ranges import Ranges


@dataclass(frozen=True)
class Flat(Placement):
    """Rank i holds elements start ... stop-1 of the tensor flattened in row-major order.

    ranges: (start, stop) for each rank; every element is in exactly one range.
    shape: shape of the tensor that is flattened: what all other axes leave, such as the `shape` of
        the parameter whose gradient is sharded.

    The local tensor is the range, or a tensor of `shape` of which only the range counts. Flat
    ranges apply after the placements of all other axes.
    """

    ranges: Sequence[tuple[int, int]]
    shape: Sequence[int]

    json_member = "flat"

    def __post_init__(self) -> None:
        shape = tuple(int(extent) for extent in self.shape)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "ranges", _checked(self.ranges, shape))

    def to_json(self) -> dict[str, Any]:
        return {"flat": [[start, stop] for start, stop in self.ranges]}

    @staticmethod
    def is_empty_in(value: Mapping[str, Any], index: int) -> bool:
        """Whether the JSON form gives rank `index` no element."""
        start, stop = value["flat"][index]
        return bool(start == stop)

    def normalised(self, ndim: int, ranks: int, axis: str, what: str) -> Placement:
        check_count(len(self.ranges), "flat ranges", ranks, axis, what)
        return self

    def local_ranges(self, extents: Sequence[int], ranks: int, index: int) -> list[Ranges]:
        """All indices: a range of the flattened tensor is no product of indices, see `window`."""
        return whole_ranges(extents)

    def local_extents(self, extents: Sequence[int], ranks: int, index: int) -> list[int]:
        start, stop = self.window(extents, index)
        return [stop - start]

    def window(self, extents: Sequence[int], index: int) -> tuple[int, int]:
        """(start, stop) of a rank. Throws TraceError if the other axes do not leave `shape`."""
        if list(self.shape) != list(extents):
            raise TraceError(
                f"the flat ranges are those of shape {list(self.shape)}, but the other axes leave "
                f"{list(extents)}; give Flat(ranges, shape) the shape that they leave"
            )
        return self.ranges[index]

    def whole_extents(self, local: Sequence[int], ranks: int) -> list[int]:
        return list(self.shape)

    def local_values(self, tensor: torch.Tensor, index: int) -> torch.Tensor:
        """A rank's range in one dimension, from the range itself or from a tensor of `shape`."""
        start, stop = self.ranges[index]
        if tuple(tensor.shape) == tuple(self.shape) and tensor.numel() != stop - start:
            return tensor.reshape(-1)[start:stop]
        return tensor.reshape(-1)


def _checked(
    ranges: Sequence[tuple[int, int]], shape: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The (start, stop) pairs as tuples.

    Throws TraceError if they overlap, leave a gap, or do not end where the tensor does.
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
