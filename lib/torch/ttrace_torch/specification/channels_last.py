"""Norms of images whose channels are innermost in memory.

PyTorch's kernels on a CPU add these up pixel by pixel, in one accumulator for each channel; batch
norms of other images are added up in binary64. The formula is therefore a sum over the rows of a
matrix [pixels, channels]. Group norms compute σ² there as the mean of squares minus the square of
the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import asked

_NORMS = frozenset(
    {
        "aten.native_batch_norm",
        "aten.native_batch_norm_backward",
        "aten._native_batch_norm_legit",
        "aten._native_batch_norm_legit_functional",
    }
)
_GROUP_NORM = "aten.native_group_norm"
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def shape_of_rows(operation: str, given: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The shape of the images that a batch norm takes as such rows; None for other operations."""
    return _shape_of_images(given) if operation in _NORMS else None


def _shape_of_images(given: Mapping[str, Any]) -> tuple[int, ...] | None:
    images = given.get("input")
    if not isinstance(images, torch.Tensor):
        return None
    layout = FORMATS.get(images.dim())
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


def group_norm(
    make: Expressions, operation: str, given: Mapping[str, Any], values: Mapping[str, Any]
) -> list[Value | None] | None:
    """The results of a group norm of such images, or of its backward; None for other operations."""
    known = operation in (_GROUP_NORM, f"{_GROUP_NORM}_backward")
    shape = _shape_of_images(given) if known else None
    if shape is None:
        return None
    norm = _GroupNorm(make, shape, values)
    return norm.backward() if operation.endswith("_backward") else norm.forward()


class _GroupNorm:
    """The formulas of the kernels, over pixels [samples, pixels, channels]."""

    def __init__(
        self, make: Expressions, shape: tuple[int, ...], values: Mapping[str, Any]
    ) -> None:
        self._make, self._shape, self._values = make, shape, values
        self._samples, self._channels, self._groups = shape[0], shape[1], int(values["group"])
        self._count = rows_of(shape)[0] // shape[0]
        wide = values["input"].dtype == "float64"
        self._dtype = "float64" if wide else "float32"
        self._x = self._pixels(values["input"])
        # The reciprocal of the number of elements in a group.
        self._share = self._groups / (self._count * self._channels)

    def forward(self) -> list[Value | None]:
        mean = self._times(self._by_group(self._sums(self._x)), self._share)
        squares = self._times(
            self._by_group(self._sums(self._times(self._x, self._x))), self._share
        )
        variance = self._make.binary("subtract", squares, self._times(mean, mean))
        variance = self._make.binary("maximum", variance, 0.0)
        eps = float(self._values["eps"])
        scale = self._make.unary("rsqrt", self._make.binary("add", variance, eps))
        factor = self._weighted(self._by_channel(scale))
        offset = self._make.unary("negate", self._times(self._by_channel(mean), factor))
        if self._values["bias"] is not None:
            offset = self._make.binary("add", offset, self._channel_wise("bias"))
        return [self._images(self._along(self._x, factor, offset)), mean, scale]

    def backward(self) -> list[Value | None]:
        make, times = self._make, self._times
        gradient = self._pixels(self._values["grad_out"])
        mean, scale = (make.cast(self._values[name], self._dtype) for name in ("mean", "rstd"))
        products, sums = self._sums(times(gradient, self._x)), self._sums(gradient)
        of_products = self._by_group(self._weighted(products))
        of_sums = self._by_group(self._weighted(sums))
        slope = make.binary("subtract", times(of_sums, mean), of_products)
        slope = times(times(slope, times(times(scale, scale), scale)), self._share)
        offset = make.unary("negate", times(slope, mean))
        offset = make.binary("subtract", offset, times(times(of_sums, scale), self._share))
        moved = self._along(self._x, self._by_channel(slope), self._by_channel(offset))
        factor = self._weighted(self._by_channel(scale))
        to_input = make.binary("add", times(gradient, self._row(factor)), moved)
        centred = make.binary("subtract", products, times(sums, self._by_channel(mean)))
        to_weight = make.reduce("sum", times(centred, self._by_channel(scale)), (0,))
        to_bias = make.reduce("sum", sums, (0,))
        return asked([self._images(to_input), to_weight, to_bias], self._values["output_mask"])

    def _pixels(self, images: Value) -> Value:
        shape = (self._samples, self._count, self._channels)
        return self._make.cast(self._make.reshape(to_rows(self._make, images), shape), self._dtype)

    def _images(self, pixels: Value) -> Value:
        return from_rows(self._make, pixels, self._shape)

    def _sums(self, pixels: Value) -> Value:
        """[samples, channels]: sums over the pixels."""
        return self._make.reduce("sum", pixels, (1,))

    def _by_group(self, channels: Value) -> Value:
        """[samples, groups]: each group is the sum of its channels."""
        shape = (self._samples, self._groups, self._channels // self._groups)
        return self._make.reduce("sum", self._make.reshape(channels, shape), (2,))

    def _by_channel(self, groups: Value) -> Value:
        """[samples, channels]: each channel gets the value of its group."""
        one = (self._samples, self._groups, 1)
        whole = (self._samples, self._groups, self._channels // self._groups)
        spread = self._make.expand(self._make.reshape(groups, one), whole)
        return self._make.reshape(spread, (self._samples, self._channels))

    def _channel_wise(self, name: str) -> Value:
        return self._make.reshape(
            self._make.cast(self._values[name], self._dtype), (1, self._channels)
        )

    def _weighted(self, channels: Value) -> Value:
        if self._values["weight"] is None:
            return channels
        return self._times(channels, self._channel_wise("weight"))

    def _row(self, channels: Value) -> Value:
        return self._make.reshape(channels, (self._samples, 1, self._channels))

    def _along(self, pixels: Value, factor: Value, offset: Value) -> Value:
        product = self._times(pixels, self._row(factor))
        return self._make.binary("add", product, self._row(offset))

    def _times(self, one: Value, other: Value | float) -> Value:
        return self._make.binary("multiply", one, other)
