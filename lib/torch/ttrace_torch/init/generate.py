"""Generates a rank's shard of a random tensor, without the rest of the tensor.

A shard is rows of runs: stretches that are contiguous in the whole tensor. Runs of one length are
generated together, as many as fit into the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Callable

import numpy as np

from ttrace_torch.init.philox import words_at
from ttrace_torch.layout.local_layout import LocalLayout, elements

Array = np.ndarray[Any, Any]

# Elements per block: their words and values fit into the second-level cache.
_BLOCK = 1 << 15


def generated(key: int, layout: LocalLayout, make: Callable[[Array], Array], dtype: Any) -> Array:
    """The elements `layout` of the stream `key`: an array of `dtype` and of the local shape.

    Word number i of the stream belongs to the element at row-major position i of the whole tensor.
    make: maps uint32 words of any shape to values of that shape, element by element.
    """
    out = np.empty(elements(layout), dtype)
    if out.size:
        rows = _Rows(layout)
        begin, end = layout.window or (0, prod(layout.array_shape))
        for first, last, low, high in _windows(begin, end, rows.width):
            for starts, places, length in rows.runs(first, last, low, high):
                values = make(_run_words(key, starts, length))
                places = places - begin
                if (np.diff(places) == length).all():
                    out[places[0] : places[0] + values.size] = values.reshape(-1)
                else:
                    out[places[:, None] + np.arange(length)] = values
    return out.reshape(layout.local_shape)


class _Rows:
    """The array that a layout's ranges make, as rows: the last dimension cut, and those after it.

    width: number of elements in a row.
    """

    def __init__(self, layout: LocalLayout) -> None:
        shape = layout.shape
        strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
        cut = [d for d, extent in enumerate(shape) if layout.ranges[d] not in ((), ((0, extent),))]
        inner = cut[-1] if cut else 0
        ranges = layout.ranges[inner] if shape else ((0, 1),)
        tail = strides[inner] if cut else prod(shape)
        if not cut:
            ranges = ((0, 1),)
        starts, lengths = (np.array(column, np.int64) * tail for column in zip(*ranges))
        self.width = int(lengths.sum())
        self._starts, self._lengths = starts, lengths
        self._places = np.cumsum(lengths) - lengths
        self._outer = [
            np.concatenate([np.arange(start, start + length) for start, length in ranges]) * stride
            for ranges, stride in zip(layout.ranges[:inner], strides)
        ]

    def runs(self, first: int, last: int, low: int, high: int) -> Iterator[tuple[Any, Any, int]]:
        """Positions low ... high-1 of the rows first ... last-1, a block at a time.

        Yields (positions in the whole tensor, positions in the array, length) of runs of one
        length.
        """
        begin = np.maximum(self._places, low)
        lengths = np.minimum(self._places + self._lengths, high) - begin
        starts = self._starts + begin - self._places
        for length in np.unique(lengths[lengths > 0]).tolist():
            alike = lengths == length
            for at in range(0, length, _BLOCK):
                size = min(_BLOCK, length - at)
                most = max(1, _BLOCK // size)
                for some in range(0, int(alike.sum()), most):
                    source = starts[alike][some : some + most] + at
                    place = begin[alike][some : some + most] + at
                    step = max(1, most // source.size)
                    for row in range(first, last, step):
                        rows = np.arange(row, min(row + step, last))
                        yield (
                            (self._origins(rows)[:, None] + source).reshape(-1),
                            (rows[:, None] * self.width + place).reshape(-1),
                            size,
                        )

    def _origins(self, rows: Array) -> Array:
        """Positions in the whole tensor of the beginnings of rows, by row number."""
        origins = np.zeros_like(rows)
        for offsets in reversed(self._outer):
            rows, index = np.divmod(rows, len(offsets))
            origins += offsets[index]
        return origins


def _windows(begin: int, end: int, width: int) -> Iterator[tuple[int, int, int, int]]:
    """(first row, last row, low, high) of the pieces of rows that [begin, end) covers."""
    first, last = begin // width, (end - 1) // width
    low, high = begin - first * width, end - last * width
    if first == last:
        yield first, first + 1, low, high
        return
    if low:
        yield first, first + 1, low, width
        first += 1
    if first < last:
        yield first, last, 0, width
    yield last, last + 1, 0, high


def _run_words(key: int, starts: Array, length: int) -> Array:
    """The words of the stream at starts ... starts + length-1: uint32 [runs, length]."""
    first = starts.astype(np.uint64)
    lanes = (starts & 3).astype(np.intp)
    if (lanes == lanes[0]).all():
        return _aligned_words(key, first, int(lanes[0]), length)
    words = np.empty((starts.size, length), np.uint32)
    for lane in range(4):
        here = lanes == lane
        if here.any():
            words[here] = _aligned_words(key, first[here], lane, length)
    return words


def _aligned_words(key: int, first: Array, lane: int, length: int) -> Array:
    """Does what `_run_words` does, for runs that all begin at word `lane` of a block of four."""
    blocks = (first >> np.uint64(2))[:, None] + np.arange(-(-(lane + length) // 4), dtype=np.uint64)
    words = words_at(key, blocks.reshape(-1))
    return words.reshape(first.size, -1)[:, lane : lane + length]
