"""Puts the whole tensors of a trace together, from the format's specification alone.

Written for the tests and apart from both the collector and the tool, so that it can disagree with
them. It knows meshes of at most one axis of several ranks.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np


class Key(NamedTuple):
    step: int
    microbatch: int | None
    kind: str
    name: str
    call: int
    copy: int


@dataclass(frozen=True)
class Merged:
    value: np.ndarray  # the logical tensor: binary64, or the stored type of integers
    copies: list[np.ndarray]  # what each rank holds
    agree: bool  # replicas are equal bit by bit; true where nothing is replicated


def merge(trace: Path) -> dict[Key, Merged]:
    """Reads a whole trace: a folder, or the single file of a run of one process."""
    with ExitStack() as files:
        if trace.is_dir():
            paths = sorted(trace.glob("rank_*.h5"))
            manifest = json.loads((trace / "manifest.json").read_text())
        else:
            paths = [trace]
        ranks = [files.enter_context(h5py.File(path)) for path in paths]
        if not trace.is_dir():
            manifest = json.loads(ranks[0]["manifest"][()])
        return dict(_tensors(manifest, ranks))


def _tensors(manifest: dict, ranks: list[h5py.File]) -> Iterator[tuple[Key, Merged]]:
    axes = [axis for axis in manifest["meshes"][""]["axes"] if axis["size"] > 1]
    assert len(axes) <= 1 and len(ranks) == (axes[0]["size"] if axes else 1)
    for entry in manifest["tensors"]:
        key = Key(
            entry["step"],
            entry.get("microbatch"),
            entry["kind"],
            entry["name"],
            entry.get("call", 0),
            entry.get("copy", 0),
        )
        placement = entry.get("placements", {}).get(axes[0]["name"] if axes else "", "replicate")
        copies = [rank[_path(key)][()] for rank in ranks]
        merged = _reduce(placement, copies)
        assert merged.value.shape == tuple(entry["shape"]), key
        yield key, merged


def _path(key: Key) -> str:
    parts = [f"step_{key.step:06}"]
    parts += [f"mb_{key.microbatch:04}"] if key.microbatch is not None else []
    parts += [f"call_{key.call:04}"] if key.call else []
    parts += [f"copy_{key.copy:04}"] if key.copy else []
    return "/".join([*parts, key.kind, key.name])


def _reduce(placement: str | dict, copies: list[np.ndarray]) -> Merged:
    wide = [c.astype(np.float64) if c.dtype.kind == "f" else c for c in copies]
    match placement:
        case "replicate":
            agree = all(c.tobytes() == copies[0].tobytes() for c in copies)
            return Merged(wide[0], copies, agree)
        case {"shard": int(dimension)}:
            return Merged(np.concatenate(wide, axis=dimension), copies, True)
        case {"partial": "sum"}:
            return Merged(np.sum(wide, axis=0), copies, True)
    raise AssertionError(f"the gallery does not write the placement {placement}")


def relative_error(reference: np.ndarray, candidate: np.ndarray) -> float:
    """The difference's Frobenius norm over the reference's; integers must be equal."""
    if reference.dtype.kind != "f":
        return 0.0 if np.array_equal(reference, candidate) else np.inf
    size = float(np.linalg.norm(reference))
    difference = float(np.linalg.norm(candidate - reference))
    return difference / size if size > 0 else (0.0 if difference == 0 else np.inf)
