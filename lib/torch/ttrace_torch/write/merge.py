"""Merges the ranks' parts of a manifest, from their files and without communication.

Every rank file embeds its own part. The rank that closes last writes manifest.json; `python -m
ttrace_torch.union` does the same by hand.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ttrace_torch.base.files import remove_quietly, sync_folder, write_synced
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.write import manifest
from ttrace_torch.write.hdf5 import is_closed, read_manifest, stamped_run
from ttrace_torch.write.merge_run import Requested, merge_runs, require_one_run
from ttrace_torch.write.merge_tensors import Contradiction, merge_tensors

MANIFEST = "manifest.json"


def rank_file(rank: int) -> str:
    """Name of a rank's file."""
    return f"rank_{rank:05d}.h5"


def part_file(rank: int) -> str:
    """Name of a file with a rank's part of the manifest alone."""
    return f"rank_{rank:05d}.json"


def complete(folder: Path, ranks: Iterable[int]) -> bool:
    """Whether the files of all `ranks` exist and are closed. Throws OSError for one that cannot be
    read."""
    files = [folder / rank_file(rank) for rank in ranks]
    # Existence is cheaper to check, and most often the answer.
    return all(file.exists() for file in files) and all(map(is_closed, files))


def write_manifest(out_dir: str | Path) -> Path:
    """Merges the rank files of `out_dir` into manifest.json, and returns its path.

    The bytes depend only on the parts, and the file appears at once, so several processes may do
    this at the same time. Throws TraceError if a rank is missing or parts contradict each other.
    """
    folder = Path(out_dir)
    save_manifest(folder, merge_manifests(read_parts(folder)))
    return folder / MANIFEST


def read_parts(folder: Path) -> dict[int, dict[str, Any]]:
    """The parts of all ranks, rank -> part: from their files, or from files of parts alone.

    Throws TraceError if one is missing.
    """
    files = sorted(folder.glob("rank_*.h5")) or sorted(folder.glob("rank_*.json"))
    if not files:
        raise TraceError(f"{folder}: no rank_*.h5 in it; give the folder that trace(out=...) named")
    meshes = [Mesh.from_json(value) for value in _read(files[0])["meshes"].values()]
    ranks = sorted({rank for mesh in meshes for rank in mesh.ranks})
    found = {rank: _file_with_part(folder, rank) for rank in ranks}
    missing = [rank for rank, file in found.items() if file is None]
    if missing:
        raise TraceError(
            f"{folder}: of the {len(ranks)} ranks of {meshes[0]}, the files of {missing} are "
            "missing; each is written when its rank closes the tracer. If they lie on other "
            "machines, `python -m ttrace_torch.union --parts DIR RUN` on each of them puts their "
            "parts of the manifest together in a folder that all see"
        )
    return {rank: _read(file) for rank, file in found.items() if file is not None}


def _file_with_part(folder: Path, rank: int) -> Path | None:
    named = (folder / rank_file(rank), folder / part_file(rank))
    return next((file for file in named if file.exists()), None)


def write_parts(out_dir: str | Path, parts_dir: str | Path) -> list[Path]:
    """Writes the part of the manifest of every rank file in `out_dir` to a file of its own in
    `parts_dir`, for ranks whose files lie on the disks of several machines.

    Each appears at once. Throws TraceError if a file cannot be read or written.
    """
    folder, parts = Path(out_dir), Path(parts_dir)
    files = sorted(folder.glob("rank_*.h5"))
    if not files:
        raise TraceError(f"{folder}: no rank_*.h5 in it; give the folder that trace(out=...) named")
    written = []
    for file in files:
        target = parts / f"{file.stem}.json"
        temporary = parts / f"{target.name}.{uuid.uuid4().hex}.tmp"
        text = manifest.dumps(_read(file))
        try:
            parts.mkdir(parents=True, exist_ok=True)
            write_synced(temporary, text)
            os.replace(temporary, target)
        except OSError as error:
            raise TraceError(
                f"{target}: cannot be written ({error.strerror}); give another folder to --parts"
            ) from error
        finally:
            remove_quietly(temporary)
        written.append(target)
    return written


def save_manifest(folder: Path, whole: Mapping[str, Any]) -> bool:
    """Writes manifest.json, which appears at once, and returns whether it is the first to do so.

    Ranks that close at the same moment all get here, on whatever host; one of them is the first.
    """
    text = manifest.dumps(whole)
    temporary = folder / f"{MANIFEST}.{uuid.uuid4().hex}.tmp"
    target = folder / MANIFEST
    try:
        write_synced(temporary, text)
        try:
            os.link(temporary, target)
        except FileExistsError:
            first = False
        except OSError:  # a file system without links: two ranks may take themselves for the first
            first = not target.exists()
        else:
            first = True
        os.replace(temporary, target)
    finally:
        # If both names are links to the same file, replace() does nothing and leaves both.
        remove_quietly(temporary)
    sync_folder(folder)
    return first


def merge_manifests(
    parts: Mapping[int, Mapping[str, Any]], contradictions: list[Contradiction] | None = None
) -> dict[str, Any]:
    """One manifest from the parts of all ranks of their meshes (rank -> part).

    contradictions: collects the tensors and optimizer entries of which parts contradict each other,
        and which the manifest then lacks; None throws TraceError for the first.
    Throws TraceError if a part is missing or of another run.
    """
    ranks = sorted(parts)
    meshes = _merge_meshes(parts)
    schemas = {rank: part.get("schema", manifest.SCHEMA) for rank, part in parts.items()}
    others = [rank for rank in ranks if schemas[rank] != schemas[ranks[0]]]
    if others:
        raise TraceError(
            f"rank {ranks[0]} has {schemas[ranks[0]]}, rank(s) {others} have another version; "
            "files of two runs lie in one folder, so empty it and run again"
        )
    require_one_run(parts)
    whole: dict[str, Any] = {"schema": schemas[ranks[0]]}
    run = merge_runs(parts)
    if run is not None:
        whole["run"] = run
    whole["meshes"] = meshes
    whole["tensors"] = merge_tensors(
        {rank: part["tensors"] for rank, part in parts.items()},
        {name: Mesh.from_json(value) for name, value in meshes.items()},
        Requested(parts),
        contradictions,
    )
    try:
        optimizer = _merge_optimizer([parts[rank].get("optimizer", []) for rank in ranks])
    except TraceError as error:
        if contradictions is None:
            raise
        contradictions.append(Contradiction("*/*/param_after_step/*", ranks, str(error)))
        optimizer = []
    if optimizer:
        whole["optimizer"] = optimizer
    modules: dict[str, Any] = {}
    for rank in ranks:
        for entry in parts[rank].get("modules", []):
            # The data flow of a module is that of the lowest rank that ran it.
            modules.setdefault(entry["name"], entry)
    if any("modules" in parts[rank] for rank in ranks):
        whole["modules"] = list(modules.values())
    return whole


def _merge_meshes(parts: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """All meshes by name, the default one first. DTensors' meshes are in some parts only."""
    found: dict[str, tuple[int, Any]] = {}
    for rank in sorted(parts):
        for name, mesh in parts[rank]["meshes"].items():
            other, known = found.setdefault(name, (rank, mesh))
            if known != mesh:
                raise TraceError(
                    f"rank {rank} says the mesh {name!r} is {mesh}, rank {other} says {known}; "
                    "files of two runs lie in one folder, so empty it and run again"
                )
    return {name: found[name][1] for name in sorted(found)}


def _merge_optimizer(parts: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Merges parameter groups with equal settings: the stages of a pipeline hold parts of a
    group."""
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
    """A part, with meshes that can be read and a list of tensors."""
    alone = path.suffix == ".json"
    what = "no part of a manifest" if alone else "no readable /manifest in it"
    try:
        text = path.read_text(encoding="utf-8") if alone else read_manifest(path)
        value: dict[str, Any] = json.loads(text)
        meshes = [Mesh.from_json(mesh) for mesh in value["meshes"].values()]
        if not meshes or not isinstance(value["tensors"], list):
            raise ValueError("it has no mesh, or no list of tensors")  # noqa: TRY301
        stamp, said = None if alone else stamped_run(path), value.get("run", {}).get("id")
        if stamp and said and stamp != said:
            raise ValueError(f"it names two runs, {stamp!r} and {said!r}")  # noqa: TRY301
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise TraceError(
            f"{path}: {what} ({type(error).__name__}: {error}); re-run that rank"
        ) from error
    return value
