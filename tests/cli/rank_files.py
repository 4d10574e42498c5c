"""Runs and single files of given arrays: nothing is cut here, every rank gets what it is given."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
from conformance.numpy_merge import dataset_path

Held = dict[int, np.ndarray]  # by rank
ONE = {"": {"axes": []}}


def mesh(**sizes: int) -> dict:
    return {"axes": [{"name": name, "size": size} for name, size in sizes.items()]}


def entry(name: str, shape: tuple[int, ...], kind: str = "param", **members: object) -> dict:
    """Of float32 and step 0, unless `members` say otherwise."""
    base = {"name": name, "kind": kind, "step": 0, "dtype": "float32", "shape": list(shape)}
    return base | members


def manifest(tensors: list[dict], meshes: dict, **members: object) -> dict:
    return {"schema": "ttrace.manifest/2", "meshes": meshes, "tensors": tensors} | members


def write_single(path: Path, tensors: list[tuple[dict, np.ndarray]], **members: object) -> Path:
    with h5py.File(path, "w") as file:
        for described, array in tensors:
            file[dataset_path(described)] = array.astype(described["dtype"])
        entries = [described for described, _ in tensors]
        file["manifest"] = json.dumps(manifest(entries, ONE, **members))
    return path


def write_run(
    folder: Path, meshes: dict, ranks: int, tensors: list[tuple[dict, Held]], **members: object
) -> Path:
    folder.mkdir(parents=True)
    entries = [described for described, _ in tensors]
    (folder / "manifest.json").write_text(json.dumps(manifest(entries, meshes, **members)))
    for rank in range(ranks):
        with h5py.File(folder / f"rank_{rank:05d}.h5", "w") as file:
            file.attrs["ttrace_rank"] = rank
            for described, held in tensors:
                if rank in held:
                    file[dataset_path(described)] = held[rank].astype(described["dtype"])
    return folder


def add_to(run: Path, rank: int, described: dict, at: tuple[int, ...], value: float) -> None:
    """Adds `value` to one element of what a rank holds."""
    with h5py.File(run / f"rank_{rank:05d}.h5", "a") as file:
        file[dataset_path(described)][at] += value


def write_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path
