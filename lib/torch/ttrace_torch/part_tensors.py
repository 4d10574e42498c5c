"""One entry for each tensor, from the entries of the ranks that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttrace_torch import manifest
from ttrace_torch.dtypes import BY_NAME
from ttrace_torch.errors import TraceError
from ttrace_torch.mesh import Mesh

# Placements under which every coordinate holds elements of its own.
_CUTS = frozenset({"shard", "boxes", "flat", "rows"})


def unite_tensors(
    parts: Mapping[int, Sequence[dict[str, Any]]], meshes: Mapping[str, Mesh]
) -> list[dict[str, Any]]:
    """The entries of all ranks (rank -> entries) as one list, each with where it is held.

    Throws TraceError where ranks contradict each other or a part of a tensor is missing.
    """
    held: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for rank in sorted(parts):
        for entry in parts[rank]:
            held.setdefault(manifest.key_of(entry), {})[rank] = entry
    return manifest.sorted_tensors(_unite_entry(entries, meshes) for entries in held.values())


def _unite_entry(
    entries: Mapping[int, dict[str, Any]], meshes: Mapping[str, Mesh]
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
    held_at = _held_at(entry, ranks, meshes[entry.get("mesh", "")])
    if held_at:
        entry["held_at"] = held_at
    if orders:
        # Last, as the collector writes it.
        entry.pop("order", None)
        entry["order"] = min(orders)
    return entry


def _members(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    # A stage that computes in a wider type than the others says so; the coarsest one counts.
    free = {"order", "computed_in"}
    return sorted(m for m in {**one, **other} if m not in free and one.get(m) != other.get(m))


def _held_at(entry: Mapping[str, Any], ranks: Sequence[int], mesh: Mesh) -> dict[str, list[int]]:
    """Axis -> coordinates, for the axes of which not all coordinates hold the tensor."""
    key = manifest.describe_key(entry)
    outside = [rank for rank in ranks if not mesh.holds(rank)]
    if outside:
        raise TraceError(
            f"{key}: recorded by the ranks {outside}, which are outside its mesh {mesh}; give "
            "the mesh all ranks that hold the tensor"
        )
    coordinates = [mesh.coordinate(rank) for rank in ranks]
    placements = entry.get("placements", {})
    found: dict[str, list[int]] = {}
    product = 1
    for axis, size in mesh.axes.items():
        holding = sorted({coordinate[axis] for coordinate in coordinates})
        product *= len(holding)
        placement = placements.get(axis, "replicate")
        if len(holding) == size or (isinstance(placement, dict) and "only" in placement):
            continue
        if isinstance(placement, dict) and _CUTS & set(placement):
            raise TraceError(
                f"{key}: cut over axis {axis}, but only its coordinates {holding} of {size} "
                f"recorded it (ranks {list(ranks)}); the other parts are missing"
            )
        found[axis] = holding
    if product != len(ranks):
        raise TraceError(
            f"{key}: recorded by ranks {list(ranks)} alone, which are no product of coordinates "
            f"of {mesh}; the ranks between them did not run that module or have no such gradient"
        )
    return found
