"""Many ranks' parts of a manifest made into one. Needs the files, and no communication.

Every rank file embeds its own part. Whoever places the last one writes manifest.json; `union` does
the same by hand.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ttrace_torch import manifest
from ttrace_torch.dtypes import BY_NAME
from ttrace_torch.errors import TraceError
from ttrace_torch.hdf5 import read_manifest
from ttrace_torch.layout import Mesh

MANIFEST = "manifest.json"


def rank_file(rank: int) -> str:
    """Name of a rank's file."""
    return f"rank_{rank:05d}.h5"


def complete(folder: Path, mesh: Mesh) -> bool:
    """Whether the files of all ranks of the mesh are in place."""
    return all((folder / rank_file(rank)).exists() for rank in range(mesh.size))


def write_manifest(out_dir: str | Path) -> Path:
    """Unites the parts in the rank files of `out_dir` and writes manifest.json; gives its path.

    The bytes depend on the parts alone, and the file is put in place at once, so several processes
    may do this at the same time. Throws TraceError where a rank is missing or parts contradict.
    """
    folder = Path(out_dir)
    files = sorted(folder.glob("rank_*.h5"))
    if not files:
        raise TraceError(f"{folder}: no rank_*.h5 in it; give the folder that trace(out=...) named")
    mesh = Mesh.from_json(_read(files[0])["meshes"][""])
    missing = [r for r in range(mesh.size) if not (folder / rank_file(r)).exists()]
    if missing:
        raise TraceError(
            f"{folder}: of the {mesh.size} ranks of {mesh}, the files of {missing} are missing; "
            "each is written when its rank closes the tracer"
        )
    parts = {rank: _read(folder / rank_file(rank)) for rank in range(mesh.size)}
    text = manifest.dumps(unite(parts))
    # A name of its own: another rank may be doing the same on another host.
    temporary = folder / f"{MANIFEST}.{uuid.uuid4().hex}.tmp"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, folder / MANIFEST)
    return folder / MANIFEST


def unite(parts: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """One manifest from the parts of all ranks of their mesh (rank -> part)."""
    ranks = sorted(parts)
    first = parts[ranks[0]]
    for rank in ranks:
        if parts[rank]["meshes"] != first["meshes"]:
            raise TraceError(
                f"rank {rank} says the meshes are {parts[rank]['meshes']}, rank {ranks[0]} says "
                f"{first['meshes']}; files of two runs lie in one folder"
            )
    mesh = Mesh.from_json(first["meshes"][""])
    whole: dict[str, Any] = {"schema": manifest.SCHEMA}
    if "run" in first:
        whole["run"] = first["run"]
    whole["meshes"] = first["meshes"]
    whole["tensors"] = _unite_tensors(parts, mesh)
    optimizer = _unite_optimizer([parts[rank].get("optimizer", []) for rank in ranks])
    if optimizer:
        whole["optimizer"] = optimizer
    modules: dict[str, Any] = {}
    for rank in ranks:
        for entry in parts[rank].get("modules", []):
            # The lowest rank that ran a module tells its data flow.
            modules.setdefault(entry["name"], entry)
    if any("modules" in parts[rank] for rank in ranks):
        whole["modules"] = list(modules.values())
    return whole


def _unite_tensors(parts: Mapping[int, Mapping[str, Any]], mesh: Mesh) -> list[dict[str, Any]]:
    held: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for rank in sorted(parts):
        for entry in parts[rank]["tensors"]:
            held.setdefault(manifest.key_of(entry), {})[rank] = entry
    return manifest.sorted_tensors(_unite_entry(entries, mesh) for entries in held.values())


def _unite_entry(entries: Mapping[int, dict[str, Any]], mesh: Mesh) -> dict[str, Any]:
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
    if coarsest != entry["dtype"]:
        entry["computed_in"] = coarsest
    orders = [e["order"] for e in entries.values() if "order" in e]
    held_at = _held_at(entry, ranks, mesh)
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
        if isinstance(placement, dict) and "shard" in placement:
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


def _unite_optimizer(parts: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Groups with the same facts become one; a pipeline's stages hold parts of each group."""
    groups: list[tuple[dict[str, Any], dict[str, None]]] = []
    for part in parts:
        for entry in part:
            facts = {member: value for member, value in entry.items() if member != "params"}
            params = next((params for known, params in groups if known == facts), None)
            if params is None:
                params = {}
                groups.append((facts, params))
            params.update(dict.fromkeys(entry.get("params", [])))
    groups.sort(key=lambda group: group[0]["step"])
    seen: dict[tuple[int, str], dict[str, Any]] = {}
    for facts, params in groups:
        for name in params:
            other = seen.setdefault((facts["step"], name), facts)
            if other is not facts:
                raise TraceError(
                    f"optimizer, step {facts['step']}: {name} is in two parameter groups, with "
                    f"{facts} and with {other}; ranks disagree, or one has it twice"
                )
    return [{**facts, "params": list(params)} for facts, params in groups]


def _read(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(read_manifest(path))
    except (OSError, KeyError, ValueError) as error:
        raise TraceError(
            f"{path}: no readable /manifest in it ({error}); re-run that rank"
        ) from error
    return value
