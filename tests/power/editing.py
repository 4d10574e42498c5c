"""Copies of traces with faults in them: values scaled in a part of each tensor, keys left out."""

from __future__ import annotations

import json
import shutil
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Entry = dict[str, Any]


def files_of(trace: Path) -> list[Path]:
    return sorted(trace.glob("rank_*.h5")) if trace.is_dir() else [trace]


def copied(trace: Path, to: Path) -> Path:
    if trace.is_dir():
        shutil.copytree(trace, to)
    else:
        shutil.copy(trace, to)
    return to


def removed(trace: Path) -> None:
    """Nothing happens where nothing is."""
    if trace.is_dir():
        shutil.rmtree(trace)
    else:
        trace.unlink(missing_ok=True)


def manifest_of(trace: Path) -> dict[str, Any]:
    if trace.is_dir():
        return json.loads((trace / "manifest.json").read_text(encoding="utf-8"))
    with h5py.File(trace) as file:
        return json.loads(file["manifest"][()])


def dataset_of(entry: Entry) -> str:
    parts = [f"step_{entry['step']:06}"]
    parts += [f"mb_{entry['microbatch']:04}"] if entry.get("microbatch") is not None else []
    parts += [f"call_{entry['call']:04}"] if entry.get("call") else []
    parts += [f"copy_{entry['copy']:04}"] if entry.get("copy") else []
    return "/".join([*parts, entry["kind"], entry["name"]])


def part_of(entry: Entry, fraction: float) -> tuple[int, int, int] | None:
    """A place for a fault in so much of a tensor: dimension, begin, width.

    In the longest dimension that no axis cuts, so that all ranks have it at the same indices; where
    in it follows from the name. None where none is long enough, or the layout is of another kind.
    """
    cut = set()
    for placement in (entry.get("placements") or {}).values():
        if placement == "replicate" or set(placement) <= {"partial", "only"}:
            continue
        if set(placement) - {"shard", "sizes", "order", "segments", "repeat", "stride"}:
            return None
        cut.add(placement["shard"])
    if "microbatches" in entry and fraction != 1:
        return None
    free = [dim for dim in range(len(entry["shape"])) if dim not in cut]
    if fraction == 1:
        return 0, 0, 0
    if not free:
        return None
    dim = max(free, key=lambda dim: entry["shape"][dim])
    extent = entry["shape"][dim]
    width = round(fraction * extent)
    if width < 1 or abs(width / extent / fraction - 1) > 0.25:
        return None
    places = extent // width
    return dim, width * (zlib.crc32(entry["name"].encode()) % places), width


class Scaled:
    """Writes tensors of a trace's copy anew, a part of each scaled by a factor of its own."""

    def __init__(self, copy: Path, entries: list[Entry]) -> None:
        self.files = files_of(copy)
        self.values: dict[tuple[int, str], np.ndarray] = {}
        for number, path in enumerate(self.files):
            with h5py.File(path) as file:
                for entry in entries:
                    name = dataset_of(entry)
                    if name in file:
                        self.values[number, name] = np.asarray(file[name][()])

    def write(self, changes: list[tuple[Entry, tuple[int, int, int], float]]) -> None:
        """changes: entry, part of it as `part_of` gives it, and by how much it is too large."""
        with ExitStack() as stack:
            files = [stack.enter_context(h5py.File(path, "r+")) for path in self.files]
            for entry, (dim, begin, width), delta in changes:
                name = dataset_of(entry)
                for number, file in enumerate(files):
                    if (number, name) in self.values:
                        value = self.values[number, name].copy()
                        part = (slice(None),) * dim + (slice(begin, begin + width),)
                        place = part if width else ...
                        value[place] = _rounded(value[place] * (1 + np.float64(delta)), entry)
                        file[name][...] = value


def _rounded(value: np.ndarray, entry: Entry) -> np.ndarray:
    """binary64 to the nearest value of the stored type; sums of parts stay as they are stored."""
    if entry["dtype"] == "bfloat16":
        return bfloat16(value)
    return value.astype(np.float32 if entry["dtype"] != "float64" else np.float64)


def bfloat16(value: np.ndarray) -> np.ndarray:
    """Rounded to bfloat16, as binary32."""
    bits = value.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def without(copy: Path, names: set[str]) -> None:
    """Leaves the datasets `names`, and what the manifests say of them, out of a trace's copy."""
    if copy.is_dir():
        path = copy / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(_kept(manifest, names)), encoding="utf-8")
    for path in files_of(copy):
        with h5py.File(path, "r+") as file:
            for name in names & _datasets(file):
                del file[name]
            embedded = _kept(json.loads(file["manifest"][()]), names)
            del file["manifest"]
            file["manifest"] = json.dumps(embedded)


def _kept(manifest: dict[str, Any], names: set[str]) -> dict[str, Any]:
    tensors = [entry for entry in manifest["tensors"] if dataset_of(entry) not in names]
    return {**manifest, "tensors": tensors}


def _datasets(file: h5py.File) -> set[str]:
    found: set[str] = set()

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found.add(name)

    file.visititems(keep)
    return found
