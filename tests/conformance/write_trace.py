"""Writes a reference and a run of two ranks, from schemas/trace-v2.md and nothing else.

    python write_trace.py FOLDER        writes FOLDER/ref.h5 and FOLDER/run/

The tensors differ in everything the format knows: element types, layouts, scale, compression.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

RANKS = 2
# bytes, lowest bit of the exponent, bits of exponent and mantissa, bias
NARROW_FLOATS = {
    "bfloat16": (2, 7, 8, 7, 127),
    "float8_e4m3fn": (1, 3, 4, 3, 7),
    "float8_e5m2": (1, 2, 5, 2, 15),
}


@dataclass
class Tensor:
    name: str
    kind: str
    dtype: str
    stored: np.ndarray  # all of it, as stored; bit patterns for the dtypes that numpy lacks
    placement: object = "replicate"  # on the candidate's axis tp
    microbatch: int | None = None
    scale: float = 1
    computed_in: str | None = None
    deflate: bool = False

    def shards(self) -> list[np.ndarray | None]:
        """What each rank of the candidate holds."""
        if self.placement == "replicate":
            return [self.stored] * RANKS
        if "only" in self.placement:
            return [
                self.stored if rank == self.placement["only"] else None for rank in range(RANKS)
            ]
        if "partial" in self.placement:
            half = np.asarray(np.round(self.stored / 2), self.stored.dtype)
            return [self.stored - half, half]
        dimension = self.placement["shard"]
        extent = self.stored.shape[dimension]
        sizes = self.placement.get("sizes", [-(-extent // RANKS), extent - -(-extent // RANKS)])
        return np.split(self.stored, np.cumsum(sizes)[:-1], axis=dimension)

    def path(self) -> str:
        microbatch = "" if self.microbatch is None else f"/mb_{self.microbatch:04d}"
        return f"/step_000000{microbatch}/{self.kind}/{self.name}"

    def entry(self, order: int, *, whole: bool) -> dict:
        entry = {"name": self.name, "kind": self.kind, "step": 0, "order": order}
        entry |= {"dtype": self.dtype, "shape": list(self.stored.shape)}
        optional = {"microbatch": self.microbatch, "computed_in": self.computed_in}
        entry |= {key: value for key, value in optional.items() if value is not None}
        if self.scale != 1:
            entry["scale"] = self.scale
        return entry if whole else entry | {"placements": {"tp": self.placement}}


def hdf5_type(dtype: str) -> h5py.h5t.TypeID:
    if dtype not in NARROW_FLOATS:
        return h5py.h5t.py_create(np.dtype(dtype).newbyteorder("<"), logical=True)
    size, exponent, exponent_bits, mantissa_bits, bias = NARROW_FLOATS[dtype]
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(exponent + exponent_bits, exponent, exponent_bits, 0, mantissa_bits)
    kind.set_precision(8 * size)
    kind.set_size(size)
    kind.set_ebias(bias)
    return kind


def write_dataset(file: h5py.File, tensor: Tensor, values: np.ndarray) -> None:
    kind = hdf5_type(tensor.dtype)
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if tensor.deflate:
        creation.set_chunk(tuple(max(1, n // 2) for n in values.shape))
        creation.set_deflate(6)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space = (
        h5py.h5s.create_simple(values.shape) if values.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    )
    dataset = h5py.h5d.create(file.id, tensor.path().encode(), kind, space, creation, links)
    if values.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values), mtype=kind)
    h5py.Dataset(dataset).attrs["ttrace_dtype"] = tensor.dtype


def manifest(tensors: list[Tensor], *, ranks: int) -> dict:
    axes = [{"name": "tp", "size": ranks}] if ranks > 1 else []
    entries = [tensor.entry(i, whole=ranks == 1) for i, tensor in enumerate(tensors)]
    return {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": axes}}, "tensors": entries}


def write_reference(path: Path, tensors: list[Tensor]) -> None:
    with h5py.File(path, "w") as file:
        for tensor in tensors:
            write_dataset(file, tensor, tensor.stored)
        file["manifest"] = json.dumps(manifest(tensors, ranks=1))


def write_candidate(folder: Path, tensors: list[Tensor]) -> None:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(manifest(tensors, ranks=RANKS), indent=1))
    for rank in range(RANKS):
        with h5py.File(folder / f"rank_{rank:05d}.h5", "w") as file:
            file.attrs["ttrace_rank"] = rank
            for tensor in tensors:
                shard = tensor.shards()[rank]
                if shard is not None:
                    write_dataset(file, tensor, shard)


def sample_tensors(seed: int = 0) -> list[Tensor]:
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return random.integers(-2048, 2048, shape) / 256

    def bits(kind: type, *shape: int) -> np.ndarray:
        return random.integers(0, 0x48, shape).astype(kind)

    def bfloat16(*shape: int) -> np.ndarray:
        return (numbers(*shape).astype("<f4").view("<u4") >> 16).astype("<u2")

    uneven = {"shard": 0, "sizes": [5, 2]}
    return [
        Tensor("(model)", "input", "int64", random.integers(-99, 99, (4, 6)), microbatch=0),
        Tensor("fc", "output", "float32", numbers(7, 4).astype("<f4"), uneven, microbatch=0),
        Tensor("fc.weight", "param", "bfloat16", bfloat16(3, 5), {"shard": 1}),
        Tensor("fc.weight", "param_grad", "float32", numbers(3, 5).astype("<f4"),
               {"partial": "sum"}, microbatch=0),
        Tensor("fc.weight", "main_grad", "float64", numbers(3, 5), computed_in="float32"),
        Tensor("act", "output", "float16", numbers(6, 3).astype("<f2"), {"shard": 0}, microbatch=0),
        Tensor("gate", "output", "float8_e4m3fn", bits(np.uint8, 7, 2), uneven, scale=0.25),
        Tensor("gate", "grad_output", "float8_e5m2", bits(np.uint8, 9), {"only": 1}, scale=4.0),
        Tensor("mask", "buffer", "bool", random.integers(0, 2, (5, 3)).astype(bool), {"shard": 1}),
        Tensor("rows", "index", "uint8", random.integers(0, 255, 6).astype("u1"), {"only": 0}),
        Tensor("loss", "loss", "float32", np.asarray(2.5, "<f4"), microbatch=0),
        Tensor("big", "output", "float32", numbers(40, 30).astype("<f4"), {"shard": 1},
               deflate=True, computed_in="bfloat16"),
        Tensor("none", "output", "float32", np.zeros((0, 4), "<f4"), {"shard": 1}),
    ]  # fmt: skip


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_candidate(target / "run", sample_tensors())
    write_reference(target / "ref.h5", sample_tensors())
