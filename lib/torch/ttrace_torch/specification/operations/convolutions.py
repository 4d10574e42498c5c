"""Convolutions of any number of dimensions: products of weights and windows of the input.

All of them are three products. With x the input, w the weight and y the result of a plain
convolution, these give y from x and w, the gradient of x from that of y and w, and the gradient of
w from x and that of y. A transposed convolution exchanges the first two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ttrace_torch.specification.expressions import Expressions, Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, asked, operation


@dataclass(frozen=True)
class _Form:
    """A convolution's numbers, one for each dimension of space.

    make: builds its expressions. dtype: of its results. factors: the setting by which a GPU may
        round what it multiplies; None for one of each channel alone, whose kernels never do.
    """

    make: Expressions
    dtype: str
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    factors: str | None

    def result(self, x: Value, weight: Value) -> Value:
        """y [n, out, ...] of x [n, in, ...] and weight [out, in/groups, ...]."""
        for turn in range(len(self.stride)):
            x = self._padded(x, 2 + turn, self.padding[turn], self.padding[turn])
        windows = self._windows(x, weight.shape[2:], self.stride, self.dilation)
        return self._multiplied(self._in_groups(weight), windows)

    def to_input(self, gradient: Value, weight: Value, shape: Sequence[int]) -> Value:
        """The gradient of x, which has that shape: every element sums what its windows give."""
        make, space = self.make, len(self.stride)
        for turn in range(space):
            dim, kernel = 2 + turn, weight.shape[2 + turn]
            reach = (kernel - 1) * self.dilation[turn]
            apart = (gradient.shape[dim] - 1) * self.stride[turn] + 1
            spread = (*gradient.shape[:dim], apart, *gradient.shape[dim + 1 :])
            gradient = make.place(gradient, spread, dim, 0, apart, self.stride[turn])
            before = reach - self.padding[turn]
            after = shape[dim] + reach - before - apart
            gradient = self._padded(gradient, dim, before, after)
        windows = self._windows(gradient, weight.shape[2:], (1,) * space, self.dilation)
        dims = tuple(2 + turn for turn in range(space) if weight.shape[2 + turn] > 1)
        if dims:
            weight = make.graph.add("flip", (weight,), weight.dtype, weight.shape, dims=dims)
        return self._multiplied(make.transpose(self._in_groups(weight), 1, 2), windows)

    def to_weight(self, gradient: Value, x: Value, shape: Sequence[int]) -> Value:
        """The gradient of the weight, which has that shape: a sum over samples and places."""
        make, space = self.make, len(self.stride)
        for turn in range(space):
            # `_windows` cuts away the rest of the padded input that no window reaches.
            x = self._padded(x, 2 + turn, self.padding[turn], self.padding[turn])
        windows = self._windows(x, shape[2:], self.stride, self.dilation)
        # [groups, in/groups · kernel, n · places]
        columns = self._columns(windows, over_samples=True)
        samples, places = gradient.shape[0], gradient.shape[2:]
        if places != windows.shape[2 : 2 + space]:
            raise Inexpressible("a convolution of another form")
        apart = make.reshape(
            gradient, (samples, self.groups, shape[0] // self.groups, math.prod(places))
        )
        rows = make.reshape(
            make.permute(apart, (1, 2, 0, 3)),
            (self.groups, shape[0] // self.groups, samples * math.prod(places)),
        )
        product = make.matmul(rows, make.transpose(columns), self.dtype, self.factors)
        return make.reshape(product, shape)

    def to_bias(self, gradient: Value) -> Value:
        """The gradient of a bias. A kernel adds up its terms in one accumulator, like those of a
        product, and not in partial sums, as torch's `sum` does: the formula is therefore a product
        with ones."""
        make, channels = self.make, gradient.shape[1]
        count = gradient.shape[0] * math.prod(gradient.shape[2:])
        apart = make.permute(gradient, (1, 0, *range(2, len(gradient.shape))))
        ones = make.full(1.0, gradient.dtype, (count, 1))
        product = make.matmul(make.reshape(apart, (channels, count)), ones, self.dtype, None)
        return make.reshape(product, (channels,))

    def _padded(self, x: Value, dim: int, before: int, after: int) -> Value:
        """x with zeros before and after it along `dim`; a negative number cuts."""
        make = self.make
        x = make.slice(x, dim, max(0, -before), x.shape[dim] - max(0, -after))
        start = max(0, before)
        stop = start + x.shape[dim]
        shape = (*x.shape[:dim], stop + max(0, after), *x.shape[dim + 1 :])
        return make.place(x, shape, dim, start, stop)

    def _windows(
        self, x: Value, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
    ) -> Value:
        """[n, channels, places..., kernel...]."""
        for turn, size in enumerate(kernel):
            x = self.make.windows(x, 2 + turn, size, stride[turn], dilation[turn])
        return x

    def _in_groups(self, weight: Value) -> Value:
        """[out, in/groups, kernel...] as [groups, out/groups, in/groups, kernel]."""
        out, channels = weight.shape[:2]
        kernel = math.prod(weight.shape[2:])
        return self.make.reshape(weight, (self.groups, out // self.groups, channels, kernel))

    def _columns(self, windows: Value, over_samples: bool) -> Value:
        """What is summed over in the last dimension but one: channels and kernel of each group, for
        each sample and place, [n, groups, channels · kernel, places], or those of all samples."""
        make, space = self.make, len(self.stride)
        samples, channels = windows.shape[0], windows.shape[1] // self.groups
        places, kernel = windows.shape[2 : 2 + space], windows.shape[2 + space :]
        apart = make.reshape(
            windows, (samples, self.groups, channels, math.prod(places), math.prod(kernel))
        )
        count = channels * math.prod(kernel)
        if over_samples:
            ordered = make.permute(apart, (1, 2, 4, 0, 3))
            return make.reshape(ordered, (self.groups, count, samples * math.prod(places)))
        ordered = make.permute(apart, (0, 1, 2, 4, 3))
        return make.reshape(ordered, (samples, self.groups, count, math.prod(places)))

    def _multiplied(self, weight: Value, windows: Value) -> Value:
        """weight [groups, out, in, kernel] · windows, as [n, groups · out, places...]."""
        make, space = self.make, len(self.stride)
        groups, out, channels, kernel = weight.shape
        rows = make.reshape(weight, (groups, out, channels * kernel))
        columns = self._columns(windows, over_samples=False)
        product = make.matmul(rows, columns, self.dtype, self.factors)
        return make.reshape(
            product, (windows.shape[0], groups * out, *windows.shape[2 : 2 + space])
        )


def _form(
    call: Call,
    x: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    transposed: bool,
) -> _Form:
    space = len(x.shape) - 2
    if min(x.shape) < 1:
        raise Inexpressible("a convolution of a size that depends on data")
    wide = [tuple(one) * (space if len(one) == 1 else 1) for one in (stride, padding, dilation)]
    channel_by_channel = 1 < groups == x.shape[1] and not transposed
    factors = None if channel_by_channel else "convolution"
    return _Form(call.make, call.dtype, wide[0], wide[1], wide[2], groups, factors)


@operation("convolution", "_convolution", "convolution_overrideable")
def _convolution(
    call: Call,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    **_: Any,
) -> Value:
    form = _form(call, input, stride, padding, dilation, groups, transposed)
    found = form.to_input(input, weight, call.shape) if transposed else form.result(input, weight)
    if bias is None:
        return found
    wide = call.make.reshape(bias, (*bias.shape, *(1,) * len(form.stride)))
    return call.make.binary("add", found, wide, call.dtype)


@operation("convolution_backward", "convolution_backward_overrideable")
def _convolution_backward(
    call: Call,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    form = _form(call, input, stride, padding, dilation, groups, transposed)
    found: list[Value | None] = [None, None, None]
    if output_mask[0]:
        found[0] = (
            form.result(grad_output, weight)
            if transposed
            else form.to_input(grad_output, weight, input.shape)
        )
    if output_mask[1]:
        pair = (input, grad_output) if transposed else (grad_output, input)
        found[1] = form.to_weight(*pair, weight.shape)
    if len(output_mask) > 2 and output_mask[2]:
        found[2] = form.to_bias(grad_output)
    return asked(found, output_mask)
