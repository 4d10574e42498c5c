"""Logical tensors of a trace by numpy alone: a second reading of schemas/trace-v2.md."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}


def decode(dtype: str, stored: np.ndarray) -> np.ndarray:
    """Stored values, or bit patterns where numpy lacks the type, as float64."""
    if dtype == "bfloat16":
        with np.errstate(invalid="ignore"):  # signalling NaNs become quiet ones
            return (stored.astype("<u4") << 16).view("<f4").astype(np.float64)
    if dtype == "float8_e5m2":  # the upper half of a float16
        return (stored.astype("<u2") << 8).view("<f2").astype(np.float64)
    if dtype == "float8_e4m3fn":
        sign = np.where(stored & 0x80, -1.0, 1.0)
        exponent, mantissa = (stored >> 3 & 15).astype(int), (stored & 7).astype(float)
        normal = np.ldexp(1 + mantissa / 8, exponent - 7)
        values = sign * np.where(exponent == 0, np.ldexp(mantissa / 8, -6), normal)
        return np.where(stored & 0x7F == 0x7F, np.nan, values)
    return stored.astype(np.float64)


def read_stored(file: h5py.File, path: str, dtype: str) -> np.ndarray:
    dataset = file[path]
    if dtype not in BITS:
        return dataset[()]
    stored = np.empty(dataset.shape, BITS[dtype])
    if stored.size:
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, stored, mtype=dataset.id.get_type())
    return stored


def dataset_path(entry: dict) -> str:
    parts = [f"step_{entry['step']:06d}"]
    if entry.get("microbatch") is not None:
        parts.append(f"mb_{entry['microbatch']:04d}")
    parts += [f"{part}_{entry[part]:04d}" for part in ("call", "copy") if entry.get(part)]
    return "/" + "/".join([*parts, entry["kind"], entry["name"]])


def key_of(entry: dict) -> tuple:
    """Of a manifest's entry or a report's key."""
    microbatch = entry.get("microbatch")
    rest = (entry["kind"], entry["name"], entry.get("call", 0), entry.get("copy", 0))
    return (entry["step"], microbatch, *rest)


def pieces(entry: dict, mesh: dict) -> Iterator[tuple[int, bool, tuple[slice, ...]]]:
    """Rank, whether it is a further copy, and the box of every dataset of a tensor."""
    axes = mesh["axes"]
    sizes = [axis["size"] for axis in axes]
    placements = [entry.get("placements", {}).get(axis["name"], "replicate") for axis in axes]
    held = []
    for axis, placement in zip(axes, placements, strict=True):
        only = [placement["only"]] if "only" in placement else range(axis["size"])
        held.append(entry.get("held_at", {}).get(axis["name"], only))
    for position in itertools.product(*(range(len(coordinates)) for coordinates in held)):
        start, extent = [0] * len(entry["shape"]), list(entry["shape"])
        for at, coordinates, placement in zip(position, held, placements, strict=True):
            if "shard" not in placement:
                continue
            d = placement["shard"]
            chunk = -(-extent[d] // len(coordinates))
            cuts = [min(i * chunk, extent[d]) for i in range(len(coordinates) + 1)]
            if "sizes" in placement:
                cuts = [0, *itertools.accumulate(placement["sizes"])]
            start[d], extent[d] = start[d] + cuts[at], cuts[at + 1] - cuts[at]
        linear = 0
        for size, at, coordinates in zip(sizes, position, held, strict=True):
            linear = linear * size + coordinates[at]
        ranks = mesh.get("ranks", "row-major")
        copies = [at for at, placement in zip(position, placements, strict=True)
                  if placement == "replicate"]  # fmt: skip
        box = tuple(slice(s, s + e) for s, e in zip(start, extent, strict=True))
        yield linear if ranks == "row-major" else ranks[linear], any(copies), box


def load(trace: Path) -> tuple[dict, dict[int, h5py.File]]:
    if trace.is_file():
        file = h5py.File(trace)
        return json.loads(file["manifest"][()]), {0: file}
    manifest = json.loads((trace / "manifest.json").read_text())
    files = sorted(trace.glob("rank_*.h5"))
    return manifest, {int(path.stem.removeprefix("rank_")): h5py.File(path) for path in files}


def merged(trace: Path) -> dict[tuple, np.ndarray]:
    """Every tensor's value, the first copy of replicas; only sums among the reductions."""
    manifest, files = load(trace)
    tensors = {}
    for entry in manifest["tensors"]:
        value = np.zeros(entry["shape"])
        for rank, is_copy, box in pieces(entry, manifest["meshes"][entry.get("mesh", "")]):
            if not is_copy and value[box].size:
                stored = read_stored(files[rank], dataset_path(entry), entry["dtype"])
                value[box] += decode(entry["dtype"], stored) * entry.get("scale", 1)
        tensors[key_of(entry)] = value
    for file in files.values():
        file.close()
    return tensors


def norm(values: np.ndarray) -> float:
    return math.sqrt(math.fsum((values * values).ravel()))
