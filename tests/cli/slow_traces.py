"""Traces that take long to compare and little to write: zeros, deflated once and stored often."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import h5py

ELEMENTS = 1 << 16  # of a chunk: 256 KiB of float32
STORED = zlib.compress(bytes(4 * ELEMENTS), 4)
SLOW = [64] * 24  # tensors of 16 MiB


def write_zeros(path: Path, *chunks: int) -> Path:
    """A tensor for every number of chunks."""
    entries = [
        {
            "name": f"t{i:03d}",
            "kind": "output",
            "step": 0,
            "dtype": "float32",
            "shape": [count * ELEMENTS],
        }
        for i, count in enumerate(chunks)
    ]
    with h5py.File(path, "w") as file:
        for entry, count in zip(entries, chunks, strict=True):
            dataset = file.create_dataset(
                f"/step_000000/output/{entry['name']}",
                entry["shape"],
                "<f4",
                chunks=(ELEMENTS,),
                compression="gzip",
                compression_opts=4,
            )
            for chunk in range(count):
                dataset.id.write_direct_chunk((chunk * ELEMENTS,), STORED)
        manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": entries}
        file["manifest"] = json.dumps(manifest)
    return path


def write_slow_tensor(path: Path) -> Path:
    """A tensor that takes no time, and one that takes seconds in one piece with --memory 64M: its
    chunks are as high as it is and all together more than may be kept, so that each is inflated
    again for every few rows."""
    side, width = 4096, 64
    chunk = zlib.compress(bytes(4 * side * width), 4)
    entries = [
        {"name": name, "kind": "output", "step": 0, "dtype": "float32", "shape": [side, columns]}
        for name, columns in (("t000", width), ("t001", side))
    ]
    with h5py.File(path, "w") as file:
        for entry in entries:
            dataset = file.create_dataset(
                f"/step_000000/output/{entry['name']}",
                entry["shape"],
                "<f4",
                chunks=(side, width),
                compression="gzip",
                compression_opts=4,
            )
            for column in range(0, entry["shape"][1], width):
                dataset.id.write_direct_chunk((0, column), chunk)
        manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": entries}
        file["manifest"] = json.dumps(manifest)
    return path
