"""Safetensors files from the description of the format: eight bytes, JSON, bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import h5py

TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}

Tensor = tuple[str, list[int], bytes]


def with_header(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def file_of(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Of types by the names of a manifest, shapes and bits."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    data = []
    at = 0
    for name, (dtype, shape, bits) in tensors.items():
        end = at + len(bits)
        header[name] = {"dtype": TYPES[dtype], "shape": shape, "data_offsets": [at, end]}
        data.append(bits)
        at = end
    return with_header(header, b"".join(data))


def tensors_in(path: Path) -> dict[str, Tensor]:
    """The contiguous datasets of an HDF5 file."""
    found: dict[str, Tensor] = {}
    raw = path.read_bytes()

    def visit(name: str, item: object) -> None:
        if not isinstance(item, h5py.Dataset) or name in ("manifest", "ranges"):
            return
        dtype = bytes(item.attrs["ttrace_dtype"]).decode()
        at = item.id.get_offset()
        # h5py reads types of 8 bits as wider ones.
        size = item.id.get_storage_size()
        found[f"/{name}"] = (dtype, list(item.shape), raw[at : at + size] if size else b"")

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def convert(path: Path, embed: bool = True) -> Path:
    """Puts a safetensors file in the place of an HDF5 file of a trace."""
    metadata = {}
    with h5py.File(path) as file:
        if embed and "manifest" in file:
            metadata["ttrace_manifest"] = file["manifest"].asstr()[()]
        if "ttrace_rank" in file.attrs:
            metadata["ttrace_rank"] = str(int(file.attrs["ttrace_rank"]))
        if "ttrace_run" in file.attrs:
            metadata["ttrace_run"] = bytes(file.attrs["ttrace_run"]).decode()
    written = path.with_suffix(".safetensors")
    written.write_bytes(file_of(tensors_in(path), metadata))
    path.unlink()
    return written
