"""A rank's file: datasets of true types, and the rank's part of the manifest.

The same calls give the same bytes: nothing is stamped with the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ttrace_torch import dtypes
from ttrace_torch.record import Record

# HDF5 1.10, which long-term distributions carry, opens what this writes.
_LIBVER = ("earliest", "v110")
_CHUNK_BYTES = 1 << 20


class RankFile:
    """The file of one rank, written under a temporary name and moved into place at the end.

    It is opened for each step and closed again, so that no handle is inherited by the processes
    that a data loader forks meanwhile.
    """

    def __init__(self, path: Path, rank: int, compress: int | None) -> None:
        """compress: deflate level 0 to 9 for chunked datasets; None writes contiguous ones."""
        self._path = path
        self._temporary = path.with_name(path.name + ".tmp")
        self._compress = compress
        with h5py.File(self._temporary, "w", libver=_LIBVER) as file:
            file.attrs.create("ttrace_rank", rank, dtype="<i8")

    def write(self, records: Iterable[Record]) -> None:
        """Appends the records' datasets. A tensor without elements is left out."""
        with h5py.File(self._temporary, "r+", libver=_LIBVER) as file:
            for record in records:
                if record.data.numel():
                    self._write_one(file, record)

    def finish(self, manifest: str) -> None:
        """Embeds the manifest and puts the file in its place."""
        with h5py.File(self._temporary, "r+", libver=_LIBVER) as file:
            text = h5py.string_dtype("utf-8")
            file.create_dataset("manifest", data=manifest, dtype=text, track_times=False)
        self._temporary.replace(self._path)

    def discard(self) -> None:
        """Removes what has been written."""
        self._temporary.unlink(missing_ok=True)

    def _write_one(self, file: Any, record: Record) -> None:
        shape = tuple(record.data.shape)
        kind = dtypes.hdf5_type(record.dtype)
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_obj_track_times(False)
        if self._compress is not None and shape:
            create.set_chunk(_chunk(shape, record.data.element_size()))
            create.set_shuffle()
            create.set_deflate(self._compress)
        link = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        link.set_create_intermediate_group(True)
        link.set_char_encoding(h5py.h5t.CSET_UTF8)
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        path = record.dataset().encode()
        dataset = h5py.h5d.create(file.id, path, kind, space, dcpl=create, lcpl=link)
        bits = np.ascontiguousarray(dtypes.bits(record.data)).reshape(shape)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=kind)
        h5py.Dataset(dataset).attrs["ttrace_dtype"] = np.bytes_(record.dtype)


def _chunk(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """A chunk of whole trailing dimensions, of about a megabyte."""
    chunk = list(shape)
    for dim in range(len(chunk)):
        inner = itemsize * int(np.prod(chunk[dim + 1 :], dtype=np.int64))
        if inner * chunk[dim] <= _CHUNK_BYTES:
            break
        chunk[dim] = max(1, _CHUNK_BYTES // inner)
    return tuple(chunk)


def read_manifest(path: Path) -> str:
    """The manifest embedded in a rank's file. Throws KeyError where it has none."""
    with h5py.File(path, "r") as file:
        value = file["manifest"][()]
    return value.decode() if isinstance(value, bytes) else str(value)
