"""Batch norms of images whose channels lie innermost in memory.

PyTorch's kernel on a CPU adds these up pixel by pixel, in one accumulator for each channel; of
other images it adds up in binary64. The sum over the rows of a matrix [pixels, channels] says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import Value

_NORMS = frozenset(
    {
        "aten.native_batch_norm",
        "aten.native_batch_norm_backward",
        "aten._native_batch_norm_legit",
        "aten._native_batch_norm_legit_functional",
    }
)
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def shape_of_rows(operation: str, given: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The shape of the images that an operation takes as such rows; None if it does not."""
    images = given.get("input")
    if operation not in _NORMS or not isinstance(images, torch.Tensor):
        return None
    layout = _FORMATS.get(images.dim())
    if layout is None or images.device.type != "cpu" or images.is_contiguous():
        return None
    return tuple(images.shape) if images.is_contiguous(memory_format=layout) else None


def to_rows(make: Expressions, images: Value) -> Value:
    """The channels of every pixel as one row."""
    dims = (0, *range(2, len(images.shape)), 1)
    return make.reshape(make.permute(images, dims), rows_of(images.shape))


def rows_of(shape: Sequence[int]) -> tuple[int, int]:
    """The sizes of the matrix."""
    pixels = shape[0]
    for size in shape[2:]:
        pixels *= size
    return pixels, shape[1]


def from_rows(make: Expressions, rows: Value, shape: Sequence[int]) -> Value:
    """Images of that shape again."""
    last = len(shape) - 1
    pixels = make.reshape(rows, (shape[0], *shape[2:], shape[1]))
    return make.permute(pixels, (0, last, *range(1, last)))
