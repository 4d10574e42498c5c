"""The order of two cuts of one dimension: FSDP2 over tensor parallelism.

FSDP2 cuts what tensor parallelism leaves, and writes this as `_StridedShard` before `Shard`, to be
read from left to right. Both readings agree if the shards are even. Otherwise they mostly differ,
and the rows that FSDP2's ranks hold are those of the order in which it cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product

from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import DimCut, Placement, Shard, Strided
from ttrace_torch.layout.placements.ranges import total


def in_sharding_order(
    placements: Mapping[str, Placement], grid: Mesh, shape: tuple[int, ...]
) -> dict[str, Placement]:
    """A parameter's placements in the order in which they cut it, outermost first.

    Unchanged if reading them from left to right leaves every rank the same extents.
    """
    found = dict(placements)
    for axis, placement in placements.items():
        if not isinstance(placement, Strided):
            continue
        same = {a: p for a, p in found.items() if _cuts(p, placement.dim)}
        later = list(same)[list(same).index(axis) + 1 :]
        factor = 1
        for other in later:
            factor *= grid.axes[other]
        if factor != placement.stride:
            continue
        cuts = tuple((p, grid.axes[a]) for a, p in same.items() if isinstance(p, DimCut))
        if _alike(shape[placement.dim], cuts, list(same).index(axis)):
            continue
        del found[axis]
        found[axis] = Shard(placement.dim)
    return found


@lru_cache(maxsize=4096)
def _alike(extent: int, cuts: tuple[tuple[DimCut, int], ...], strided: int) -> bool:
    """Whether all ranks hold as much with cut number `strided` made last, as a `Shard`."""
    order = [*range(strided), *range(strided + 1, len(cuts)), strided]
    for where in product(*(range(size) for _, size in cuts)):
        written = made = extent
        for (cut, size), index in zip(cuts, where):
            written = total(cut.cut(written, size, index))
        for number in order:
            cut, size = cuts[number]
            plain = Shard(cut.dim) if number == strided else cut
            made = total(plain.cut(made, size, where[number]))
        if written != made:
            return False
    return True


def _cuts(placement: Placement, dim: int) -> bool:
    return isinstance(placement, DimCut) and placement.dim == dim
