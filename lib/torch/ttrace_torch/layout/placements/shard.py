"""`Shard`: one dimension cut into contiguous shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import DimCut, Placement, check_count
from ttrace_torch.layout.placements.ranges import Ranges, appended, chunk


@dataclass(frozen=True)
class Shard(DimCut):
    """Dimension `dim` is cut over the axis in the order of `torch.chunk`.

    dim: may be negative, counted from the end.
    sizes: extent of each rank's shard, if the shards are not those of `torch.chunk`.
    size: extent of the whole dimension. Needed if it is no multiple of the axis, because a rank
        cannot compute it from its own shard.
    """

    dim: int
    sizes: Sequence[int] | None = None
    size: int | None = None

    json_member = "shard"

    def __post_init__(self) -> None:
        if self.sizes is not None:
            if self.size is not None and self.size != sum(self.sizes):
                raise TraceError(
                    f"Shard({self.dim}): size {self.size} is not the sum of sizes "
                    f"{list(self.sizes)}; give one of the two"
                )
            object.__setattr__(self, "sizes", tuple(int(s) for s in self.sizes))

    def to_json(self) -> dict[str, Any]:
        sizes = {} if self.sizes is None else {"sizes": list(self.sizes)}
        return {"shard": self.dim, **sizes}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Shard:
        return cls(value["shard"], value.get("sizes"))

    def normalised(self, ndim: int, ranks: int, axis: str, what: str) -> Placement:
        found = super().normalised(ndim, ranks, axis, what)
        if self.sizes is not None:
            check_count(len(self.sizes), "sizes", ranks, axis, what)
        return found

    def cut(self, extent: int, ranks: int, index: int) -> Ranges:
        return shard_ranges(self.sizes, extent, ranks, index)

    def whole_extent(self, local: int, ranks: int) -> int:
        return local * ranks if self.sizes is None else sum(self.sizes)


def shard_ranges(sizes: Sequence[int] | None, extent: int, ranks: int, index: int) -> Ranges:
    """The indices of shard `index`, of given sizes or in the order of `torch.chunk`.

    Throws TraceError if the sizes do not add up to `extent`.
    """
    if sizes is None:
        return appended([], *chunk(extent, ranks, index))
    if sum(sizes) != extent:
        raise TraceError(
            f"the sizes {list(sizes)} add up to {sum(sizes)}, but there are {extent} elements to "
            "cut; give the sizes of what the earlier axes leave"
        )
    return appended([], sum(sizes[:index]), sizes[index])
