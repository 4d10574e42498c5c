"""A run of two ranks that grows as the collector's does: a step at a time, each rank for itself."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
from conformance.numpy_merge import dataset_path

from .rank_files import entry, manifest, mesh, write_single

MESHES = {"": mesh(tp=2)}
KINDS = ["param", "output", "loss", "main_grad", "param_after_step"]
SHARDED = {"placements": {"tp": {"shard": 0}}}


def values(step: int, kind: str, wrong: bool = False) -> np.ndarray:
    if kind == "loss":
        return np.array(1.0 + step)
    numbers = np.random.default_rng([step, KINDS.index(kind)]).standard_normal((8, 4))
    return numbers * (1.01 if wrong and kind == "output" else 1)


def entries(step: int) -> list[dict]:
    return [
        entry(
            "loss" if kind == "loss" else "fc" if kind == "output" else "fc.weight",
            () if kind == "loss" else (8, 4),
            kind,
            step=step,
            **({} if kind == "loss" else SHARDED),
        )
        for kind in KINDS
    ]


def facts(identity: str, steps: list[int], **members: object) -> dict:
    return {"id": identity, "recorded": {"kinds": KINDS, "steps": steps}} | members


def whole(described: dict) -> dict:
    return {name: value for name, value in described.items() if name != "placements"}


def write_reference(path: Path, steps: list[int]) -> Path:
    tensors = [(whole(one), values(one["step"], one["kind"])) for s in steps for one in entries(s)]
    return write_single(path, tensors, run=facts("reference", steps))


class GrowingRun:
    """wrong: the steps whose output is wrong."""

    def __init__(self, folder: Path, identity: str = "run", wrong: tuple[int, ...] = ()) -> None:
        self.folder, self.identity, self.wrong = folder, identity, wrong
        self.steps: dict[int, list[int]] = {0: [], 1: []}
        folder.mkdir(exist_ok=True)

    def file(self, rank: int) -> Path:
        return self.folder / f"rank_{rank:05d}.h5"

    def write(self, step: int, ranks: tuple[int, ...] = (0, 1)) -> None:
        for rank in ranks:
            self.steps[rank].append(step)
            self._commit(rank, entries(step), unfinished=[rank])

    def close(self) -> None:
        for rank in self.steps:
            self._commit(rank, [])
        steps = self.steps[0]
        tensors = [one for step in steps for one in entries(step)]
        whole_manifest = manifest(tensors, MESHES, run=facts(self.identity, steps))
        (self.folder / "manifest.json").write_text(json.dumps(whole_manifest))

    def _commit(self, rank: int, new: list[dict], **members: object) -> None:
        path = self.file(rank)
        hidden = path.with_suffix(".h5.tmp")
        steps = self.steps[rank]
        if path.exists() and len(steps) > (1 if new else 0):
            path.rename(hidden)
        else:
            hidden.unlink(missing_ok=True)
        with h5py.File(hidden, "a") as file:
            file.attrs["ttrace_rank"] = rank
            for one in new:
                array = values(one["step"], one["kind"], one["step"] in self.wrong)
                half = array if array.ndim == 0 else array[4 * rank : 4 * rank + 4]
                file[dataset_path(one)] = half.astype("float32")
            all_entries = [one for step in steps for one in entries(step)]
            if "manifest" in file:
                del file["manifest"]
            run = facts(self.identity, steps, **members)
            file["manifest"] = json.dumps(manifest(all_entries, MESHES, run=run))
        hidden.rename(path)
