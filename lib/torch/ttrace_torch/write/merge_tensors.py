"""One entry for each tensor, from the entries of the ranks that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from ttrace_torch.base.dtypes import BY_NAME
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Flat, Only, from_json, kind_of
from ttrace_torch.write import manifest
from ttrace_torch.write.merge_run import Requested


def merge_tensors(
    parts: Mapping[int, Sequence[dict[str, Any]]], meshes: Mapping[str, Mesh], told: Requested
) -> list[dict[str, Any]]:
    """The entries of all ranks (rank -> entries) as one list, each with where it is held.

    told: what every rank was told to record. A rank that should have recorded a part and did not
        goes into `absent_on`. Throws TraceError where ranks contradict each other, and for a
        missing part where nothing tells what the rank was to record.
    """
    held: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for rank in sorted(parts):
        for entry in parts[rank]:
            held.setdefault(manifest.key_of(entry), {})[rank] = entry
    return manifest.sorted_tensors(
        _merge_entries(entries, meshes, told) for entries in held.values()
    )


def _merge_entries(
    entries: Mapping[int, dict[str, Any]], meshes: Mapping[str, Mesh], told: Requested
) -> dict[str, Any]:
    """One entry from those of the ranks that hold the tensor."""
    ranks = sorted(entries)
    entry = dict(entries[ranks[0]])
    for rank in ranks[1:]:
        differing = _members(entry, entries[rank])
        if differing:
            member = differing[0]
            same = [r for r in ranks if entries[r].get(member) == entry.get(member)]
            others = [r for r in ranks if r not in same]
            raise TraceError(
                f"{manifest.describe_key(entry)}: rank(s) {same} say {member} is "
                f"{entry.get(member)}, rank(s) {others} say {entries[rank].get(member)}; "
                "describe the layout alike on all ranks, and an uneven cut by its whole extent, "
                "Shard(dim, size=...)"
            )
    precisions = [e.get("computed_in", e["dtype"]) for e in entries.values()]
    coarsest = max(precisions, key=lambda name: BY_NAME[name].epsilon or 0.0)
    entry.pop("computed_in", None)
    if coarsest != entry["dtype"]:
        entry["computed_in"] = coarsest
    orders = [e["order"] for e in entries.values() if "order" in e]
    mesh = meshes[entry.get("mesh", "")]
    holding = _holding(entry, ranks, mesh)
    held_at = _held_at(entry, holding, mesh)
    lacking = _lacking(entry, ranks, holding, mesh)
    _check_known(entry, ranks, [rank for rank in lacking if not told.knows(rank)], holding, mesh)
    absent = [rank for rank in lacking if told.asked(rank, entry)]
    position = entry.pop("position", None)
    if held_at:
        entry["held_at"] = held_at
    if orders:
        # Behind the rest, as the collector writes it.
        entry.pop("order", None)
        entry["order"] = min(orders)
    if position is not None:
        entry["position"] = position
    if absent:
        entry["absent_on"] = absent
    return entry


def _members(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    # A stage that computes in a wider type than the others says so; the coarsest one counts.
    # An optional argument that one rank alone gives moves the others' positions.
    free = {"order", "computed_in", "position"}
    return sorted(m for m in {**one, **other} if m not in free and one.get(m) != other.get(m))


def _holding(entry: Mapping[str, Any], ranks: Sequence[int], mesh: Mesh) -> dict[str, list[int]]:
    """Axis -> coordinates that hold the tensor, by its placements and by who recorded it."""
    outside = [rank for rank in ranks if not mesh.holds(rank)]
    if outside:
        raise TraceError(
            f"{manifest.describe_key(entry)}: recorded by the ranks {outside}, which are outside "
            f"its mesh {mesh}; give the mesh all ranks that hold the tensor"
        )
    coordinates = [mesh.coordinate(rank) for rank in ranks]
    return {
        axis: list(range(size))
        if _is_cut(entry, axis)
        else sorted({coordinate[axis] for coordinate in coordinates})
        for axis, size in mesh.axes.items()
    }


def _held_at(
    entry: Mapping[str, Any], holding: Mapping[str, list[int]], mesh: Mesh
) -> dict[str, list[int]]:
    """Axis -> coordinates, for the axes of which not all coordinates hold the tensor."""
    return {
        axis: holding[axis]
        for axis, size in mesh.axes.items()
        if len(holding[axis]) < size and kind_of(_placement(entry, axis)) is not Only
    }


def _lacking(
    entry: Mapping[str, Any], ranks: Sequence[int], holding: Mapping[str, list[int]], mesh: Mesh
) -> list[int]:
    """The ranks that should hold a part by the placements, and recorded none; ascending."""
    lacking = []
    for combination in product(*holding.values()):
        where = dict(zip(holding, combination))
        rank = mesh.rank_at(where)
        if rank not in ranks and not _is_empty(entry, holding, where):
            lacking.append(rank)
    return sorted(lacking)


def _is_empty(
    entry: Mapping[str, Any], holding: Mapping[str, list[int]], where: Mapping[str, int]
) -> bool:
    """Whether the placements leave the coordinate no element, so that nothing was to record."""
    left = list(entry["shape"])
    for axis, held in holding.items():
        word = _placement(entry, axis)
        index = held.index(where[axis])
        if kind_of(word) is Flat:
            if Flat.is_empty_in(word, index):
                return True
            continue
        try:
            left = from_json(word).local_extents(left, len(held), index)
        except TraceError:
            # A layout that contradicts itself, which `ttrace lint` tells.
            return False
    return 0 in left


def _check_known(
    entry: Mapping[str, Any],
    ranks: Sequence[int],
    unknown: Sequence[int],
    holding: Mapping[str, list[int]],
    mesh: Mesh,
) -> None:
    """Throws for a part that is missing on ranks of which nothing tells whether they had one."""
    if not unknown:
        return
    key = manifest.describe_key(entry)
    coordinates = [mesh.coordinate(rank) for rank in ranks]
    for axis, size in mesh.axes.items():
        there = sorted({coordinate[axis] for coordinate in coordinates})
        if len(there) < len(holding[axis]):
            raise TraceError(
                f"{key}: cut over axis {axis}, but only its coordinates {there} of {size} "
                f"recorded it (ranks {list(ranks)}); the other parts are missing"
            )
    raise TraceError(
        f"{key}: recorded by ranks {list(ranks)} alone, which are no product of coordinates "
        f"of {mesh}; the ranks between them did not run that module or have no such gradient"
    )


def _placement(entry: Mapping[str, Any], axis: str) -> dict[str, Any]:
    word = entry.get("placements", {}).get(axis)
    return word if isinstance(word, dict) else {}


def _is_cut(entry: Mapping[str, Any], axis: str) -> bool:
    return kind_of(_placement(entry, axis)).cuts
