"""A rank's HDF5 file: datasets in their own element types, and the rank's part of the manifest.

The same calls give the same bytes: the file has no timestamps.

Elements go to the file as they come. Everything else follows when a step is committed: the headers
of its datasets, the groups above them, the manifest, and the root group, which the head of the file
names. What earlier commits have written stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from ttrace_torch.base import dtypes
from ttrace_torch.capture.records import Key, Record
from ttrace_torch.write import hdf5_bytes
from ttrace_torch.write.chunks import chunk_of, put_chunks, read_chunks
from ttrace_torch.write.datasets import Datasets, Type
from ttrace_torch.write.ranges import ranges_table, seal_ranges
from ttrace_torch.write.step_file import StepFile

# Attribute of a finished file.
_CLOSED = "ttrace_closed"
# Attribute with the id of the run.
_RUN = "ttrace_run"
# Bytes of a run's id in an attribute, for which HDF5 has 64 KiB.
_LONGEST_STAMP = 4096
# So many bytes are copied faster than looked at.
_FEW_BYTES = 4096
# How often a file is opened that another rank may be changing.
_TRIES = 3
_NOT_IN_NUMPY = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
# Stands for a place in bytes that are made once for many datasets.
_SOME_PLACE = 0xFEDC_BA98_7654_3210


# Name -> a group, or the address of the header of a dataset.
_Tree = dict[bytes, Any]


class RankFile:
    """The file of one rank. Each commit makes everything written so far visible.

    What is written between two commits is in steps, and groups, of its own.

    The file is opened for each step and closed again, so that processes forked by a data loader
    inherit no handle. Throws OSError for I/O errors; `rollback` then restores the state of the last
    commit.
    """

    def __init__(self, path: Path, rank: int, compress: int | None, run: str = "") -> None:
        """compress: deflate level 0 to 9 for chunked datasets; None writes contiguous ones.
        run: the id of the run, or empty."""
        self._file = StepFile(path, hdf5_bytes.SUPERBLOCK_BYTES)
        self._attributes = [hdf5_bytes.attribute(b"ttrace_rank", rank)]
        if 0 < len(run.encode()) <= _LONGEST_STAMP:
            self._attributes.append(hdf5_bytes.attribute(_RUN.encode(), run.encode()))
        self._compress = compress
        # What the last commit has left: the groups of steps, and where their datasets lie.
        self._steps: dict[bytes, int] = {}
        self._kept: list[tuple[str, Datasets]] = []
        # Group -> datasets that have been written since.
        self._new: dict[str, Datasets] = {}
        # Each type once: many datasets have the same.
        self._types: dict[Type, Type] = {}

    @property
    def empty(self) -> bool:
        """Whether no step has been committed."""
        return self._file.empty

    def create(self) -> None:
        """Checks that the file can be written."""
        self._file.create()

    def write(self, record: Record, bits: np.ndarray[Any, Any]) -> None:
        """Writes the elements of `record`, unless it has none.

        bits: what `bits_of` says.
        """
        if bits.size:
            self._file.begin()
            kind, name = (record.dtype, bits.shape), record.key.name
            datasets = self._group(record.key)
            datasets.types[name] = self._types.setdefault(kind, kind)
            self._put(datasets, name, bits)

    def add(self, record: Record, data: torch.Tensor) -> None:
        """Adds `data` to the elements of `record`, rounding as torch does for its type."""
        if data.numel():
            datasets, name = self._group(record.key), record.key.name
            total = torch.empty(datasets.types[name][1], dtype=record.stored)
            bits, place, chunks = bits_of(total), datasets.places[name], datasets.chunks.get(name)
            if chunks is not None:
                read_chunks(self._file.read, chunks, bits)
            else:
                read = self._file.read(place, bits.nbytes)
                bits[...] = np.frombuffer(read, bits.dtype).reshape(bits.shape)
            total += data
            if chunks is not None:
                self._put(datasets, name, bits)
            else:
                self._file.replace(place, _memory_of(bits))

    def renumber(
        self, records: Iterable[Record], numbers: Mapping[int, int | None]
    ) -> list[Record]:
        """Gives datasets the final numbers of their micro-batches, provisional number -> final;
        None for the step.

        Returns the records. Leaves out those whose final key another one has; a scalar gets the
        next free call.
        """
        found = list(records)
        if not numbers:
            return found
        taken = {record.key for record in found}
        kept = []
        for record in found:
            provisional = record.key.microbatch
            if provisional is None or provisional not in numbers:
                kept.append(record)
                continue
            old, key = record.key, record.key._replace(microbatch=numbers[provisional])
            while key.kind == "scalar" and key in taken:
                key = key._replace(call=key.call + 1)
            group = self._group(old)
            if key in taken:
                group.drop(old.name)
                continue
            taken.add(key)
            record.key = key
            kept.append(record)
            if old.name in group.places:
                group.move(old.name, self._group(key))
        return kept

    def commit(self, manifest: str, closed: bool = False) -> None:
        """Embeds this rank's part of the manifest, replacing an earlier one, and makes the file
        visible.

        closed: whether this is the last commit, which also writes the table of ranges.
        """
        self._file.begin()
        append = self._file.append
        append(bytes(-self._file.size % 8))  # no reader needs it, and most work faster
        new = {path: datasets for path, datasets in self._new.items() if datasets.places}
        steps = {**self._steps, **self._put_headers(new)}
        members = {**steps, b"manifest": hdf5_bytes.put_text(append, manifest.encode())}
        attributes, kept, place = self._attributes, [*self._kept], 0
        if self._compress is None:  # readers find chunks through HDF5
            kept += new.items()
        table = ranges_table(kept) if closed else b""
        if table:
            place = append(table)
            layout = hdf5_bytes.contiguous(place, len(table))
            kind = hdf5_bytes.element_type("uint8")
            members[b"ranges"] = append(hdf5_bytes.dataset(kind, [len(table)], layout))
        if closed:
            attributes = [*attributes, hdf5_bytes.attribute(_CLOSED.encode(), 1)]
        root = hdf5_bytes.put_group(append, members, *attributes)
        head = hdf5_bytes.superblock(root, self._file.size)
        if table:
            seal_ranges(self._file, head, place, kept)
        self._file.commit(head)
        self._steps, self._kept, self._new = steps, kept, {}

    def rollback(self) -> None:
        """Drops everything written since the last commit."""
        self._new = {}
        self._file.rollback()

    def discard_unfinished(self) -> None:
        """Removes a file that has not been committed."""
        self._file.discard_temporary()

    def discard(self) -> None:
        """Removes the file."""
        self._file.discard()

    def _group(self, key: Key) -> Datasets:
        path = key.group()
        if path not in self._new:
            self._new[path] = Datasets()
        return self._new[path]

    def _put(self, datasets: Datasets, name: str, bits: np.ndarray[Any, Any]) -> None:
        if self._compress is not None and bits.shape:
            chunks = put_chunks(self._file.append, bits, self._compress)
            datasets.chunks[name], datasets.places[name] = chunks, chunks.tree
        else:
            few = bits.nbytes <= _FEW_BYTES
            datasets.places[name] = self._file.append(bits.tobytes() if few else _memory_of(bits))

    def _put_headers(self, groups: Mapping[str, Datasets]) -> dict[bytes, int]:
        """Puts the headers of datasets, and the groups above them. Returns the groups of the
        steps."""
        root: _Tree = {}
        known = {}
        for path, datasets in groups.items():
            group = root
            for part in path.split("/"):
                group = group.setdefault(part.encode(), {})
            headers, at = [], self._file.size
            for name, kind in datasets.types.items():
                if kind not in known:
                    known[kind] = self._around_place(*kind)
                before, after = known[kind]
                headers.append(before + datasets.places[name].to_bytes(8, "little") + after)
                group[name.encode()] = at
                at += len(headers[-1])
            self._file.append(b"".join(headers))
        return {name: self._put_group(step) for name, step in root.items()}

    def _put_group(self, tree: _Tree) -> int:
        members = {
            name: self._put_group(one) if isinstance(one, dict) else one
            for name, one in tree.items()
        }
        return hdf5_bytes.put_group(self._file.append, members)

    def _around_place(self, dtype: str, shape: tuple[int, ...]) -> tuple[bytes, bytes]:
        """The header of a dataset before and after the place of its elements."""
        item = dtypes.BY_NAME[dtype].bits.itemsize
        layout, more = hdf5_bytes.contiguous(_SOME_PLACE, item * math.prod(shape)), []
        if self._compress is not None and shape:
            layout = hdf5_bytes.chunked(_SOME_PLACE, chunk_of(shape, item), item)
            more = [hdf5_bytes.shuffled_and_deflated(self._compress, item)]
        more.append(hdf5_bytes.attribute(b"ttrace_dtype", dtype.encode()))
        header = hdf5_bytes.dataset(hdf5_bytes.element_type(dtype), shape, layout, *more)
        before, _, after = header.partition(_SOME_PLACE.to_bytes(8, "little"))
        return before, after


def bits_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The elements of a CPU tensor, in its memory and shape; those of types that numpy lacks as
    integers."""
    dtype = dtypes.DTYPES[tensor.dtype]
    if dtype.name not in _NOT_IN_NUMPY:
        return tensor.numpy()
    # Old releases of torch view floating-point types only as signed integers.
    return tensor.view(torch.uint8 if dtype.bits.itemsize == 1 else torch.int16).numpy()


def stored_bits(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The stored bits of a CPU tensor: an array of the same shape."""
    return bits_of(tensor).view(dtypes.DTYPES[tensor.dtype].bits)


def _memory_of(bits: np.ndarray[Any, Any]) -> memoryview:
    return np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data


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
