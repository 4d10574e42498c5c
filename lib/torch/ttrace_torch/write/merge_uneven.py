"""Shards of uneven extents, of which a rank knows its own alone: it counts the others' as large.

Together the ranks know better: the whole is the sum (schemas/trace-v2.md, "Merging").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ttrace_torch.layout.mesh import Mesh

# Rank -> its entry of one tensor.
Entries = Mapping[int, dict[str, Any]]
# What a rank holds at each coordinate of an axis; None where no rank has the tensor.
_Extents = list[Optional[int]]


def with_whole_extents(entries: Entries, index: Entries, mesh: Mesh) -> Entries:
    """The ranks' entries with the shape of the whole and the shards' `sizes`, where they differ in
    the extents of dimensions that one axis each cuts by a plain shard.

    index: the entries of the index that they name, if they are placed by rows with labels: their
        whole extent is that of the index.
    Returns them as they are where they differ in more, where ranks at one coordinate of the axis
    have shards of two extents, and where a coordinate has no entry (of an index it is empty).
    """
    first = entries[min(entries)]
    placements, is_index = dict(first.get("placements", {})), first["kind"] == "index"
    if any(one.get("placements", {}) != placements for one in entries.values()):
        return entries
    shapes = _shapes(entries, index, mesh)
    whole = list(shapes[min(shapes)])
    alike = all(shape == whole for shape in shapes.values())
    if alike and not is_index:
        return entries if whole == first["shape"] else _with(entries, whole, placements)
    if any(len(one) != len(whole) or not mesh.holds(rank) for rank, one in shapes.items()):
        return entries
    for dim, extent in enumerate(list(whole)):
        differ = any(shape[dim] != extent for shape in shapes.values())
        if not differ and not is_index:
            continue
        axis = _plain_cut(placements, dim)
        said = {rank: shape[dim] for rank, shape in shapes.items()}
        extents = None if axis is None else _extents(said, axis, mesh)
        lacks = extents is not None and None in extents and not is_index
        if axis is None or extents is None or lacks:
            if differ:
                return entries
            continue
        sizes = [size or 0 for size in extents]
        if differ or sum(sizes) != extent:
            whole[dim] = sum(sizes)
            placements[axis] = {"shard": dim, "sizes": sizes}
    return _with(entries, whole, placements)


def index_of(entry: Mapping[str, Any]) -> str | None:
    """The name of the index of a tensor that is placed by rows with labels; None for another."""
    for placed in entry.get("placements", {}).values():
        if placed.get("rows", {}).get("labels"):
            return str(placed["rows"]["index"])
    return None


def _with(entries: Entries, whole: list[int], placements: dict[str, Any]) -> Entries:
    found: dict[str, Any] = {"shape": whole}
    if placements:
        found["placements"] = placements
    return {rank: {**entry, **found} for rank, entry in entries.items()}


def _shapes(entries: Entries, index: Entries, mesh: Mesh) -> dict[int, list[int]]:
    """The shapes that the ranks say; those of rows with labels with the extent of their index, if
    the ranks say of both the same."""
    shapes = {rank: list(entry["shape"]) for rank, entry in entries.items()}
    if not index or any(not mesh.holds(rank) for rank in [*entries, *index]):
        return shapes
    placed = next(p["rows"] for p in entries[min(entries)]["placements"].values() if "rows" in p)
    dim, listed = placed["dim"], {rank: entry["shape"] for rank, entry in index.items()}
    if any(len(shape) != 1 for shape in listed.values()):
        return shapes
    if any(dim >= len(shape) or listed.get(r) != [shape[dim]] for r, shape in shapes.items()):
        return shapes
    axis = _plain_cut(index[min(index)].get("placements", {}), 0)
    said = {rank: shape[0] for rank, shape in listed.items()}
    extents = None if axis is None else _extents(said, axis, mesh)
    if extents is not None:
        for shape in shapes.values():
            shape[dim] = sum(size or 0 for size in extents)
    return shapes


def _plain_cut(placements: Mapping[str, Any], dim: int) -> str | None:
    """The axis that alone cuts the dimension, if it does so by a plain shard."""
    cutting = [axis for axis, placed in placements.items() if _cuts(placed, dim)]
    if len(cutting) != 1 or placements[cutting[0]] != {"shard": dim}:
        return None
    return cutting[0]


def _cuts(placed: Mapping[str, Any], dim: int) -> bool:
    """Whether it cuts the dimension, in whatever way."""
    if "rows" in placed:
        return bool(placed["rows"]["dim"] == dim)
    return placed.get("shard") == dim or "boxes" in placed or "flat" in placed


def _extents(said: Mapping[int, int], axis: str, mesh: Mesh) -> _Extents | None:
    """The extent at each coordinate of the axis; None if ranks contradict each other, or do not
    count the others' shards as large as their own.

    said: rank -> the extent of the whole that it says.
    """
    ranks = mesh.axes[axis]
    found: _Extents = [None] * ranks
    for rank, extent in said.items():
        coordinate = mesh.coordinate(rank)[axis]
        if extent % ranks or found[coordinate] not in (None, extent // ranks):
            return None
        found[coordinate] = extent // ranks
    return found
