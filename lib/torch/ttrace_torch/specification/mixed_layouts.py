"""The backward of a batch norm in 16 bits whose input and gradient have different layouts in
memory.

PyTorch's kernels on a CPU need equal layouts. If the layouts differ, or are neither of the known
ones, another loop runs over one channel after the other, and rounds intermediate results to the
type of the images, or of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ttrace_torch.specification.channels_last import FORMATS, from_rows, rows_of, to_rows
from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import asked

_BACKWARD = "aten.native_batch_norm_backward"
_NARROW = (torch.bfloat16, torch.float16)


def batch_norm_backward(
    make: Expressions, operation: str, given: Mapping[str, Any], values: Mapping[str, Any]
) -> list[Value | None] | None:
    """The results of such a backward; None for other operations."""
    if operation != _BACKWARD or not given["train"] or given["save_mean"] is None:
        return None
    images, gradient = given["input"], given["grad_out"]
    if images.device.type != "cpu" or images.dtype not in _NARROW or _lie_alike(images, gradient):
        return None
    if -1 in values["input"].shape or len(values["input"].shape) < 2:
        return None
    return _backward(make, values)


def _lie_alike(images: torch.Tensor, gradient: torch.Tensor) -> bool:
    layouts = (torch.contiguous_format, FORMATS.get(images.dim(), torch.contiguous_format))
    return any(
        images.is_contiguous(memory_format=layout) and gradient.is_contiguous(memory_format=layout)
        for layout in layouts
    )


def _backward(make: Expressions, values: Mapping[str, Any]) -> list[Value | None]:
    shape = values["input"].shape
    own = values["input"].dtype
    wide = values["save_mean"].dtype
    count = float(rows_of(shape)[0])

    def times(one: Value, other: Value) -> Value:
        return make.binary("multiply", make.cast(one, wide), make.cast(other, wide))

    def row(channels: Value) -> Value:
        return make.reshape(channels, (1, shape[1]))

    scale = row(values["save_invstd"])
    pixels = make.cast(to_rows(make, values["input"]), wide)
    gradient = to_rows(make, values["grad_out"])
    centred = make.binary("subtract", pixels, row(values["save_mean"]))
    sums = _sum(make, gradient)
    products = _sum(make, times(centred, gradient))
    slope = times(times(make.cast(products, own), scale), scale)
    slope = make.cast(make.binary("divide", slope, count), own)
    mean = make.cast(make.binary("divide", sums, count), own)
    moved = make.cast(times(centred, slope), own)
    rest = make.binary("subtract", make.binary("subtract", gradient, mean), moved)
    to_input = times(rest, scale)
    weight = values["weight"]
    if weight is not None:
        to_input = times(to_input, row(weight))
    to_input = from_rows(make, make.cast(to_input, own), shape)
    scaled = make.binary("multiply", products, make.cast(scale, "float32"))
    # The gradient of the bias is rounded to the images' type, of whatever type the bias is.
    both = scaled, make.cast(sums, own)
    to_weight, to_bias = (make.reshape(make.cast(x, wide), (shape[1],)) for x in both)
    return asked([to_input, to_weight, to_bias], values["output_mask"])


def _sum(make: Expressions, rows: Value) -> Value:
    """[1, channels], in one accumulator for each."""
    total = make.reduce("sum", make.cast(rows, "float32"), (0,))
    return make.reshape(total, (1, rows.shape[1]))
