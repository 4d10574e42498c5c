"""Merges the ranks' entries of a tensor into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from ttrace_torch.base.dtypes import coarsest
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Flat, Only, from_json, kind_of
from ttrace_torch.write import manifest
from ttrace_torch.write.merge_run import Requested
from ttrace_torch.write.merge_uneven import Entries, index_of, with_whole_extents


class Contradiction(NamedTuple):
    """What the ranks contradict each other about.

    tensors: glob over the ids of tensors. ranks: those that recorded them.
    """

    tensors: str
    ranks: list[int]
    reason: str


def merge_tensors(
    parts: Mapping[int, Sequence[dict[str, Any]]],
    meshes: Mapping[str, Mesh],
    requested: Requested,
    contradictions: list[Contradiction] | None = None,
) -> list[dict[str, Any]]:
    """Merges the entries of all ranks (rank -> entries) into one list, each with its ranks.

    requested: what every rank was asked to record. `absent_on` lists ranks that should have
        recorded a shard and did not.
    contradictions: collects the tensors that the list then lacks; None throws for the first.
    Throws TraceError if ranks contradict each other, and for a missing shard if the rank's part
    does not say what it was asked to record.
    """
    held: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for rank in sorted(parts):
        for entry in parts[rank]:
            held.setdefault(manifest.key_of(entry), {})[rank] = entry
    merged = []
    for entries in held.values():
        try:
            mesh = meshes[entries[min(entries)].get("mesh", "")]
            index = _index_of(entries[min(entries)], held)
            whole = with_whole_extents(entries, index, mesh)
            merged.append(_merge_entries(whole, meshes, requested))
        except TraceError as error:
            if contradictions is None:
                raise
            name = manifest.id_of(entries[min(entries)])
            contradictions.append(Contradiction(name, sorted(entries), str(error)))
    return manifest.sorted_tensors(merged)


def _index_of(entry: Mapping[str, Any], held: Mapping[tuple[Any, ...], Entries]) -> Entries:
    """The ranks' entries of the index that a tensor placed by rows names; none for another one."""
    name = index_of(entry)
    if name is None:
        return {}
    key = {k: v for k, v in entry.items() if k in ("step", "microbatch", "call")}
    return held.get(manifest.key_of({**key, "kind": "index", "name": name}), {})


def _merge_entries(
    entries: Mapping[int, dict[str, Any]], meshes: Mapping[str, Mesh], requested: Requested
) -> dict[str, Any]:
    """Merges the entries of the ranks that recorded one tensor."""
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
    computed_in = coarsest(e.get("computed_in", e["dtype"]) for e in entries.values())
    entry.pop("computed_in", None)
    if computed_in != entry["dtype"]:
        entry["computed_in"] = computed_in
    orders = [e["order"] for e in entries.values() if "order" in e]
    mesh = meshes[entry.get("mesh", "")]
    coordinates = _coordinates(entry, ranks, mesh)
    held_at = _held_at(entry, coordinates, mesh)
    lacking = _lacking(entry, ranks, coordinates, mesh)
    _check_known(
        entry, ranks, [rank for rank in lacking if not requested.knows(rank)], coordinates, mesh
    )
    absent = [rank for rank in lacking if requested.asked(rank, entry)]
    position = entry.pop("position", None)
    if held_at:
        entry["held_at"] = held_at
    if orders:
        # Last, as the collector writes it.
        entry.pop("order", None)
        entry["order"] = min(orders)
    if position is not None:
        entry["position"] = position
    if absent:
        entry["absent_on"] = absent
    return entry


def _members(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    # A pipeline stage may compute in a wider type than the others; the coarsest type counts. An
    # optional argument that only one rank gives shifts the others' positions.
    free = {"order", "computed_in", "position"}
    return sorted(m for m in {**one, **other} if m not in free and one.get(m) != other.get(m))


def _coordinates(
    entry: Mapping[str, Any], ranks: Sequence[int], mesh: Mesh
) -> dict[str, list[int]]:
    """Axis -> coordinates that hold the tensor, by its placements and by the recording ranks."""
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
    entry: Mapping[str, Any], coordinates: Mapping[str, list[int]], mesh: Mesh
) -> dict[str, list[int]]:
    """Axis -> coordinates, for the axes on which only some coordinates hold the tensor."""
    return {
        axis: coordinates[axis]
        for axis, size in mesh.axes.items()
        if len(coordinates[axis]) < size and kind_of(_placement(entry, axis)) is not Only
    }


def _lacking(
    entry: Mapping[str, Any], ranks: Sequence[int], coordinates: Mapping[str, list[int]], mesh: Mesh
) -> list[int]:
    """The ranks that should hold a shard and recorded none; ascending."""
    lacking = []
    for combination in product(*coordinates.values()):
        where = dict(zip(coordinates, combination))
        rank = mesh.rank_at(where)
        if rank not in ranks and not _is_empty(entry, coordinates, where):
            lacking.append(rank)
    return sorted(lacking)


def _is_empty(
    entry: Mapping[str, Any], coordinates: Mapping[str, list[int]], where: Mapping[str, int]
) -> bool:
    """Whether the placements leave the coordinate no element, so that nothing was to record."""
    left = list(entry["shape"])
    for axis, held in coordinates.items():
        value = _placement(entry, axis)
        index = held.index(where[axis])
        if kind_of(value) is Flat:
            if Flat.is_empty_in(value, index):
                return True
            continue
        try:
            left = from_json(value).local_extents(left, len(held), index)
        except TraceError:
            # The layout contradicts itself, which `ttrace lint` reports.
            return False
    return 0 in left


def _check_known(
    entry: Mapping[str, Any],
    ranks: Sequence[int],
    unknown: Sequence[int],
    coordinates: Mapping[str, list[int]],
    mesh: Mesh,
) -> None:
    """Throws TraceError for a missing shard on ranks that do not say what they were asked to
    record."""
    if not unknown:
        return
    key = manifest.describe_key(entry)
    recorded = [mesh.coordinate(rank) for rank in ranks]
    for axis, size in mesh.axes.items():
        there = sorted({coordinate[axis] for coordinate in recorded})
        if len(there) < len(coordinates[axis]):
            raise TraceError(
                f"{key}: cut over axis {axis}, but only its coordinates {there} of {size} "
                f"recorded it (ranks {list(ranks)}); the other parts are missing"
            )
    raise TraceError(
        f"{key}: recorded by ranks {list(ranks)} alone, which are no product of coordinates "
        f"of {mesh}; the ranks between them did not run that module or have no such gradient"
    )


def _placement(entry: Mapping[str, Any], axis: str) -> dict[str, Any]:
    value = entry.get("placements", {}).get(axis)
    return value if isinstance(value, dict) else {}


def _is_cut(entry: Mapping[str, Any], axis: str) -> bool:
    return kind_of(_placement(entry, axis)).cuts
