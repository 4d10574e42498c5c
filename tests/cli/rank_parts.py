"""Runs without a manifest.json, and manifests held against each other."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import h5py
from support.ttrace_cli import TESTDATA

RUNS = ["tp2sp", "tp2sp_p12"]


def rank_file(run: Path, rank: int) -> Path:
    return run / f"rank_{rank:05d}.h5"


def manifest_of(run: Path) -> dict:
    return json.loads((run / "manifest.json").read_text())


def canonical(manifest: dict) -> dict:
    """With what is the default left out."""
    manifest = copy.deepcopy(manifest)
    for mesh in manifest["meshes"].values():
        if mesh.get("ranks") == "row-major":
            del mesh["ranks"]
    for entry in manifest.get("modules", []) + manifest.get("optimizer", []):
        for member in ("params", "inputs"):
            if entry.get(member) == []:
                del entry[member]
    for member in ("run", "modules", "optimizer"):
        if not manifest.get(member):
            manifest.pop(member, None)
    return manifest


def copied(name: str, folder: Path) -> Path:
    run = folder / name
    shutil.copytree(TESTDATA / name, run)
    (run / "manifest.json").unlink()
    return run


def entry(name: str = "a", **members: object) -> dict:
    base = {"name": name, "kind": "output", "step": 0, "dtype": "float32", "shape": [4]}
    return base | members


def axes(**sizes: int) -> dict:
    return {"axes": [{"name": name, "size": size} for name, size in sizes.items()]}


def part(*tensors: dict, meshes: dict | None = None, **members: object) -> dict:
    meshes = meshes or {"": axes(tp=2)}
    return {"schema": "ttrace.manifest/2", "meshes": meshes, "tensors": list(tensors), **members}


def write_parts(run: Path, parts: dict[int, dict | str]) -> Path:
    """Rank files with nothing but their parts."""
    run.mkdir()
    for rank, value in parts.items():
        with h5py.File(rank_file(run, rank), "w") as file:
            file.attrs["ttrace_rank"] = rank
            file["manifest"] = value if isinstance(value, str) else json.dumps(value)
    return run
