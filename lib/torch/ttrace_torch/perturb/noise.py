"""The random numbers of a noise run, equal for an element in every layout.

The key is seed, step, micro-batch, call and name; the position is that in the whole tensor of one
micro-batch. schemas/consistent-v1.md is the definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Callable

import numpy as np

from ttrace_torch.base.microbatch import Batch, BatchRule, MicroBatches
from ttrace_torch.init.generate import generated
from ttrace_torch.init.normal import uniform
from ttrace_torch.init.philox import noise_key
from ttrace_torch.layout.local_layout import LocalLayout
from ttrace_torch.layout.placements.ranges import Ranges, appended, total

Array = np.ndarray[Any, Any]


def noise(
    layout: LocalLayout,
    seed: int,
    step: int,
    batch: Batch,
    call: int,
    name: str,
    along: BatchRule | None = None,
) -> Array:
    """u in [-1, 1) for the elements `layout` of the output `name`: float32 of the local shape.

    along: the dimension along which several micro-batches are concatenated. If they are equally
        long, each has the numbers it has alone; otherwise `batch` is one key for all.
    """

    def made(part: LocalLayout, of: object) -> Array:
        return generated(noise_key(seed, step, of, call, name), part, uniform, np.float32)

    apart = by_microbatch(layout, batch, along, made)
    return made(layout, batch) if apart is None else apart


def by_microbatch(
    layout: LocalLayout,
    batch: Batch,
    along: BatchRule | None,
    made: Callable[[LocalLayout, int], Array],
) -> Array | None:
    """Concatenates `made(layout, number)` of each micro-batch: float32 of the local shape.

    Returns None if several micro-batches are not concatenated or not equally long.
    """
    if not isinstance(batch, MicroBatches):
        return made(layout, batch)
    if not isinstance(along, int) or not layout.shape or layout.window is not None:
        return None
    dim = along % len(layout.shape)
    if layout.shape[dim] % len(batch.numbers):
        return None
    out = np.empty(layout.local_shape, np.float32)
    for number, part, places in _microbatches(layout, dim, batch):
        out[(slice(None),) * dim + (places,)] = made(part, number)
    return out


def _microbatches(
    layout: LocalLayout, dim: int, batch: MicroBatches
) -> Iterator[tuple[int, LocalLayout, Array]]:
    """Each micro-batch's number, its local layout, and its indices along `dim`."""
    extent = layout.shape[dim] // len(batch.numbers)
    shape = tuple(extent if d == dim else size for d, size in enumerate(layout.shape))
    for order, number in enumerate(batch.numbers):
        ranges: Ranges = []
        places = []
        passed = 0
        for start, length in layout.ranges[dim]:
            low = max(start, order * extent)
            high = min(start + length, (order + 1) * extent)
            if low < high:
                ranges = appended(ranges, low - order * extent, high - low)
                places.append(np.arange(passed + low - start, passed + high - start))
            passed += length
        if total(ranges):
            held = (*layout.ranges[:dim], tuple(ranges), *layout.ranges[dim + 1 :])
            part = replace(layout, shape=shape, ranges=held)
            yield number, part, np.concatenate(places)
