"""`Strided`: shards of chunks, where a later mesh axis cut the dimension first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import DimCut
from ttrace_torch.layout.placements.ranges import Ranges, appended, chunk


@dataclass(frozen=True)
class Strided(DimCut):
    """Dimension `dim` is cut into `stride` chunks, each cut over the axis on its own.

    The equivalent of DTensor's `_StridedShard` with that split factor, and of Megatron's
    `partition_stride`.
    size: extent of the whole dimension; needed if it is no multiple of stride times axis.
    """

    dim: int
    stride: int
    size: int | None = None

    json_member = "stride"

    def __post_init__(self) -> None:
        if self.stride < 1:
            raise TraceError(f"Strided({self.dim}, {self.stride}): the stride is at least 1")

    def to_json(self) -> dict[str, Any]:
        return {"shard": self.dim, "stride": self.stride}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Strided:
        return cls(value["shard"], value["stride"])

    def cut(self, extent: int, ranks: int, index: int) -> Ranges:
        held: Ranges = []
        for number in range(self.stride):
            start, length = chunk(extent, self.stride, number)
            offset, shard = chunk(length, ranks, index)
            held = appended(held, start + offset, shard)
        return held
