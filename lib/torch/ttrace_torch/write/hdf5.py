"""A rank's HDF5 file: datasets in their own element types, and the rank's part of the manifest.

The same calls give the same bytes: the file has no timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from ttrace_torch.base import dtypes
from ttrace_torch.capture.records import Record
from ttrace_torch.write.ranges import Ranges
from ttrace_torch.write.step_file import StepFile

# HDF5 1.10, which long-term distributions have, can read these files.
_LIBVER = ("earliest", "v110")
_CHUNK_BYTES = 1 << 20
# Attribute of a finished file.
_CLOSED = "ttrace_closed"
# Attribute with the id of the run.
_RUN = "ttrace_run"
# Bytes of a run's id in an attribute, for which HDF5 has 64 KiB.
_LONGEST_STAMP = 4096
# How often a file is opened that another rank may be changing.
_TRIES = 3


class RankFile:
    """The file of one rank. Each commit makes everything written so far visible.

    The file is opened for each step and closed again, so that processes forked by a data loader
    inherit no handle. Throws OSError for I/O errors; `rollback` then restores the state of the last
    commit.
    """

    def __init__(self, path: Path, rank: int, compress: int | None, run: str = "") -> None:
        """compress: deflate level 0 to 9 for chunked datasets; None writes contiguous ones.
        run: the id of the run, or empty."""
        self._file = StepFile(path)
        self._rank = rank
        self._run = run.encode()
        self._compress = compress
        self._ranges = Ranges()
        self._hdf5: Any = None
        # Name of an element type -> its HDF5 type; that of the name, and the name.
        self._types: dict[str, tuple[Any, Any, Any]] = {}
        self._scalar = h5py.h5s.create(h5py.h5s.SCALAR)
        self._contiguous = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self._contiguous.set_obj_track_times(False)
        self._links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        self._links.set_create_intermediate_group(True)
        self._links.set_char_encoding(h5py.h5t.CSET_UTF8)

    @property
    def empty(self) -> bool:
        """Whether no step has been committed."""
        return self._file.empty

    def create(self) -> None:
        """Checks that the file can be written."""
        self._file.create()

    def write(self, record: Record, data: torch.Tensor) -> None:
        """Writes the dataset of `record`, unless the tensor has no elements.

        data: contiguous, on the CPU.
        """
        if data.numel():
            self._open()
            self._write_one(record, data)
            self._check()

    def add(self, record: Record, data: torch.Tensor) -> None:
        """Adds `data` to the dataset of `record`, rounding as torch does for its type."""
        if data.numel():
            dataset = self._hdf5[record.dataset()].id
            kind = hdf5_type(record.dtype)
            total = torch.empty(data.shape, dtype=record.stored)
            bits = stored_bits(total)
            dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=kind)
            total += data
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=kind)
            self._check()

    def renumber(
        self, records: Iterable[Record], numbers: Mapping[int, int | None]
    ) -> list[Record]:
        """Gives datasets the final numbers of their micro-batches, provisional number -> final;
        None for the step.

        Returns the records. Leaves out those whose final key another one has; a scalar gets the
        next free call.
        """
        found = list(records)
        taken = {record.key for record in found}
        kept = []
        for record in found:
            provisional = record.key.microbatch
            if provisional is None or provisional not in numbers:
                kept.append(record)
                continue
            old, key = (
                record.dataset(),
                record.key._replace(microbatch=numbers[provisional]),
            )
            while key.kind == "scalar" and key in taken:
                key = key._replace(call=key.call + 1)
            if key in taken:
                continue
            taken.add(key)
            record.key = key
            kept.append(record)
            if self._hdf5 is not None and old in self._hdf5:
                self._hdf5.move(old, record.dataset())
                self._ranges.move(old, record.dataset())
        for number in numbers:
            for step in {record.key.step for record in found}:
                group = f"step_{step:06d}/mb_{number:04d}"
                if self._hdf5 is not None and group in self._hdf5:
                    del self._hdf5[group]
                    self._ranges.drop(group)
        return kept

    def commit(self, manifest: str, closed: bool = False) -> None:
        """Embeds this rank's part of the manifest, replacing an earlier one, and makes the file
        visible.

        closed: whether this is the last commit, which also writes the table of ranges.
        """
        self._open()
        file = self._hdf5
        if "manifest" in file:
            del file["manifest"]
        text = h5py.string_dtype("utf-8")
        file.create_dataset("manifest", data=manifest, dtype=text, track_times=False)
        if closed:
            file.attrs.create(_CLOSED, 1, dtype="<i8")
        table = self._ranges.table() if closed else b""
        place = 0
        if table:
            values = np.frombuffer(table, np.uint8)
            place = file.create_dataset("ranges", data=values, track_times=False).id.get_offset()
        self._hdf5 = None
        file.close()
        if table:
            self._ranges.seal(self._file, place)
        self._check()
        self._file.commit()
        self._ranges.keep()

    def rollback(self) -> None:
        """Drops everything written since the last commit."""
        file, self._hdf5 = self._hdf5, None
        self._file.ignore()
        self._ranges.forget()
        if file is not None:
            # HDF5's errors about missing writes are expected here.
            with suppress(Exception):
                file.close()
        self._file.rollback()

    def discard_unfinished(self) -> None:
        """Removes a file that has not been committed."""
        self._file.discard_temporary()

    def discard(self) -> None:
        """Removes the file."""
        self._file.discard()

    def _open(self) -> None:
        if self._hdf5 is not None:
            return
        self._file.begin()
        if not self._file.empty:
            self._hdf5 = h5py.File(self._file, "r+", libver=_LIBVER)
            return
        self._hdf5 = h5py.File(self._file, "w", libver=_LIBVER)
        self._hdf5.attrs.create("ttrace_rank", self._rank, dtype="<i8")
        if 0 < len(self._run) <= _LONGEST_STAMP:
            self._hdf5.attrs.create(_RUN, np.bytes_(self._run))

    def _check(self) -> None:
        if self._file.error is not None:
            raise self._file.error

    def _write_one(self, record: Record, data: torch.Tensor) -> None:
        shape = tuple(data.shape)
        name = record.dtype
        if name not in self._types:
            self._types[name] = (hdf5_type(name), *_as_text(name))
        kind, text_type, text = self._types[name]
        create = self._contiguous
        if self._compress is not None and shape:
            create = create.copy()
            create.set_chunk(_chunk(shape, data.element_size()))
            create.set_shuffle()
            create.set_deflate(self._compress)
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        path = record.dataset()
        dataset = h5py.h5d.create(
            self._hdf5.id, path.encode(), kind, space, dcpl=create, lcpl=self._links
        )
        bits = np.ascontiguousarray(stored_bits(data)).reshape(shape)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=kind)
        if self._compress is None:
            self._ranges.add(path, dataset.get_offset(), bits.nbytes, name, shape)
        # Without h5py's own attributes, which take a third of the time of a small tensor.
        attribute = h5py.h5a.create(dataset, b"ttrace_dtype", text_type, self._scalar)
        attribute.write(text, mtype=text_type)


def stored_bits(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The stored bits of a contiguous CPU tensor: an array of the same shape."""
    dtype = dtypes.DTYPES[tensor.dtype]
    if dtype.epsilon is None:
        return tensor.numpy()
    # Old releases of torch view floating-point types only as signed integers.
    signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    array: np.ndarray[Any, Any] = tensor.view(signed[dtype.bits.itemsize]).numpy()
    return array.view(dtype.bits)


def _small_float(size: int, exponent: int, mantissa: int, bias: int) -> Any:
    kind = h5py.h5t.IEEE_F16LE.copy()
    # The fields first: HDF5 refuses a size that the old fields do not fit in.
    kind.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    kind.set_precision(8 * size)
    kind.set_size(size)
    kind.set_ebias(bias)
    return kind


def hdf5_type(name: str) -> Any:
    """HDF5 type of the dtype called `name`, on disk and in memory."""
    if name == "bfloat16":
        return _small_float(2, 8, 7, 127)
    if name == "float8_e4m3fn":
        return _small_float(1, 4, 3, 7)
    if name == "float8_e5m2":
        return _small_float(1, 5, 2, 15)
    if name == "bool":
        return h5py.h5t.py_create(np.dtype(bool), logical=True)
    return h5py.h5t.py_create(np.dtype(name).newbyteorder("<"))


def _as_text(text: str) -> tuple[Any, Any]:
    array = np.array(text.encode())
    return h5py.h5t.py_create(array.dtype), array


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
    """The manifest embedded in a rank's file. Throws KeyError if it has none."""
    with h5py.File(path, "r") as file:
        value = file["manifest"][()]
    return value.decode() if isinstance(value, bytes) else str(value)


def stamped_run(path: Path) -> str | None:
    """The id of the run that a rank's file is stamped with; None if it has no stamp."""
    with h5py.File(path, "r") as file:
        value = file.attrs.get(_RUN)
    return value.decode() if isinstance(value, bytes) else value and str(value)


def is_closed(path: Path) -> bool:
    """Whether the file exists and its rank has closed the tracer.

    Throws OSError if it cannot be read: taken for a rank that still runs, it would leave the run
    without a manifest and without a word.
    """
    for turn in range(_TRIES):
        try:
            with h5py.File(path, "r") as file:
                return _CLOSED in file.attrs
        except OSError:
            # Its rank may have begun a commit, which takes the file away while it changes it.
            if not path.exists():
                return False
            if turn + 1 == _TRIES:
                raise
    return False
