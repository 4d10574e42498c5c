"""`Segments`: a dimension of several concatenated tensors (q, k and v; gate and up)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import DimCut, Placement, check_count
from ttrace_torch.layout.placements.ranges import Ranges, appended
from ttrace_torch.layout.placements.shard import shard_ranges


@dataclass(frozen=True)
class Segments(DimCut):
    """Dimension `dim` is a concatenation of segments, each cut over the axis on its own.

    segments: their extents in what the earlier axes left. The list is repeated `repeat` times.
    sizes: for each segment the extents of the ranks' shards, if they are not those of
        `torch.chunk`.
    """

    dim: int
    segments: Sequence[int]
    repeat: int = 1
    sizes: Sequence[Sequence[int]] | None = None

    json_member = "segments"

    def __post_init__(self) -> None:
        segments = tuple(int(extent) for extent in self.segments)
        object.__setattr__(self, "segments", segments)
        what = f"Segments({self.dim}, {list(segments)})"
        if not segments or min(segments) < 0 or self.repeat < 1:
            raise TraceError(
                f"{what}, repeat {self.repeat}: give at least one segment, none of them negative, "
                "and repeat them at least once"
            )
        if self.sizes is None:
            return
        sizes = tuple(tuple(int(size) for size in shards) for shards in self.sizes)
        object.__setattr__(self, "sizes", sizes)
        if len(sizes) != len(segments):
            raise TraceError(f"{what}: {len(sizes)} lists of sizes; give one for each segment")
        for extent, shards in zip(segments, sizes):
            if sum(shards) != extent:
                raise TraceError(
                    f"{what}: the parts {list(shards)} add up to {sum(shards)}, but their segment "
                    f"has {extent}; make them add up"
                )

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"shard": self.dim, "segments": list(self.segments)}
        if self.repeat != 1:
            value["repeat"] = self.repeat
        if self.sizes is not None:
            value["sizes"] = [list(shards) for shards in self.sizes]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Segments:
        return cls(value["shard"], value["segments"], value.get("repeat", 1), value.get("sizes"))

    def normalised(self, ndim: int, ranks: int, axis: str, what: str) -> Placement:
        found = super().normalised(ndim, ranks, axis, what)
        for shards in self.sizes or ():
            check_count(len(shards), "parts of a segment", ranks, axis, what)
        return found

    def cut(self, extent: int, ranks: int, index: int) -> Ranges:
        width = sum(self.segments)
        if width * self.repeat != extent:
            times = f", {self.repeat} times," if self.repeat > 1 else ""
            raise TraceError(
                f"the segments {list(self.segments)}{times} add up to {width * self.repeat}, but "
                f"there are {extent} elements to cut; give the segments of what the earlier axes "
                "leave"
            )
        held: Ranges = []
        for start in range(0, extent, max(width, 1)):
            for number, segment in enumerate(self.segments):
                sizes = None if self.sizes is None else self.sizes[number]
                for offset, length in shard_ranges(sizes, segment, ranks, index):
                    held = appended(held, start + offset, length)
                start += segment
        return held

    def whole_extent(self, local: int, ranks: int) -> int:
        return self.repeat * sum(self.segments)
