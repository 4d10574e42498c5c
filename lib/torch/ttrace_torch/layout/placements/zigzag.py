"""`Zigzag`: the order of chunks in context parallelism, which balances causal attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttrace_torch.layout.placements.placement import DimCut
from ttrace_torch.layout.placements.ranges import Ranges, appended, chunk


@dataclass(frozen=True)
class Zigzag(DimCut):
    """Dimension `dim` is cut into 2·n chunks for n ranks; rank i holds chunks i and 2n-1-i.

    size: extent of the whole dimension; needed if it is no multiple of 2·n.
    """

    dim: int
    size: int | None = None

    json_member = "order"

    def to_json(self) -> dict[str, Any]:
        return {"shard": self.dim, "order": "zigzag"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Zigzag:
        return cls(value["shard"])

    def cut(self, extent: int, ranks: int, index: int) -> Ranges:
        first = appended([], *chunk(extent, 2 * ranks, index))
        return appended(first, *chunk(extent, 2 * ranks, 2 * ranks - 1 - index))
