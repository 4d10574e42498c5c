"""Datasets in chunks that are shuffled and deflated, as HDF5's filters do it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Callable, NamedTuple

import numpy as np

from ttrace_torch.write.hdf5_bytes import Append, put_chunk_tree

_CHUNK_BYTES = 1 << 20


class Chunks(NamedTuple):
    """The chunks of a dataset.

    shape: of a whole chunk; those at the end of a dimension are filled up.
    tree: address of the tree above them.
    places: of each chunk the offset of its elements, its size and its address.
    """

    shape: tuple[int, ...]
    tree: int
    places: list[tuple[tuple[int, ...], int, int]]


def put_chunks(append: Append, bits: np.ndarray[Any, Any], level: int) -> Chunks:
    """Puts all elements of `bits`."""
    item, chunk = bits.itemsize, chunk_of(bits.shape, bits.itemsize)
    places = []
    for offset in _offsets(bits.shape, chunk):
        part = bits[_part(offset, chunk)]
        if part.shape != chunk:
            whole = np.zeros(chunk, bits.dtype)
            whole[tuple(map(slice, part.shape))] = part
            part = whole
        data = zlib.compress(_as_bytes(part).reshape(-1, item).T.tobytes(), level)
        places.append((offset, len(data), append(data)))
    end = tuple(-(-extent // size) * size for extent, size in zip(bits.shape, chunk))
    return Chunks(chunk, put_chunk_tree(append, places, end), places)


def read_chunks(
    read: Callable[[int, int], bytes], chunks: Chunks, bits: np.ndarray[Any, Any]
) -> None:
    """Fills `bits`. read: takes the address and the number of bytes."""
    item = bits.itemsize
    for offset, size, address in chunks.places:
        data = np.frombuffer(zlib.decompress(read(address, size)), np.uint8)
        whole = data.reshape(item, -1).T.copy().view(bits.dtype).reshape(chunks.shape)
        part = bits[_part(offset, chunks.shape)]
        part[...] = whole[tuple(map(slice, part.shape))]


def chunk_of(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The shape of a chunk of whole trailing dimensions, of about a megabyte."""
    chunk = list(shape)
    for dim in range(len(chunk)):
        inner = itemsize * prod(chunk[dim + 1 :])
        if inner * chunk[dim] <= _CHUNK_BYTES:
            break
        chunk[dim] = max(1, _CHUNK_BYTES // inner)
    return tuple(chunk)


def _offsets(shape: Sequence[int], chunk: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return product(*(range(0, extent, size) for extent, size in zip(shape, chunk)))


def _part(offset: Sequence[int], chunk: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(at, at + size) for at, size in zip(offset, chunk))


def _as_bytes(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(part).reshape(-1).view(np.uint8)
