"""Pooling of any number of dimensions: reductions of windows of the input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation


def _wide(numbers: Sequence[int], space: int) -> tuple[int, ...]:
    return tuple(numbers) * (space if len(numbers) == 1 else 1)


def _padded(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    places: Sequence[int],
    filling: float,
) -> Value:
    """x with `filling` around it, so wide that windows at `places` fit; they may reach beyond it
    with `ceil_mode`."""
    make, first = call.make, len(x.shape) - len(kernel)
    for turn, before in enumerate(padding):
        dim = first + turn
        reach = (places[turn] - 1) * stride[turn] + (kernel[turn] - 1) * dilation[turn] + 1
        extent = max(reach, before + x.shape[dim])
        shape = (*x.shape[:dim], extent, *x.shape[dim + 1 :])
        stop = before + x.shape[dim]
        if filling == 0:
            x = make.place(x, shape, dim, before, stop)
        else:
            x = make.replace(make.full(filling, x.dtype, shape), x, dim, before, stop)
        x = make.slice(x, dim, 0, reach)
    return x


def _windows(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """[..., places..., kernel], the elements of a window in one dimension."""
    first = len(x.shape) - len(kernel)
    for turn, size in enumerate(kernel):
        x = call.make.windows(x, first + turn, size, stride[turn], dilation[turn])
    outer = x.shape[: len(x.shape) - len(kernel)]
    return call.make.reshape(x, (*outer, math.prod(kernel)))


@operation("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    call: Call,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    space = _space(x, kernel_size)
    kernel = _wide(kernel_size, space)
    steps, around = _wide(stride or kernel, space), _wide(padding, space)
    places = call.shape[-space:]
    ones, make = (1,) * space, call.make
    padded = _padded(call, x, kernel, steps, around, ones, places, 0.0)
    total = make.reduce("sum", _windows(call, padded, kernel, steps, ones), -1)
    counts = _counts(call, x, kernel, steps, around, places, count_include_pad, divisor_override)
    return make.binary("divide", total, counts, call.dtype)


@operation("avg_pool2d_backward", "avg_pool3d_backward")
def _avg_pool_backward(
    call: Call,
    grad_output: Value,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    """Every element gets its share of the windows that it lies in."""
    space, make = _space(x, kernel_size), call.make
    kernel = _wide(kernel_size, space)
    steps, around = _wide(stride or kernel, space), _wide(padding, space)
    places = grad_output.shape[-space:]
    counts = _counts(call, x, kernel, steps, around, places, count_include_pad, divisor_override)
    shares = make.binary("divide", grad_output, counts, call.dtype)
    first = len(x.shape) - space
    for turn in range(space):
        dim = first + turn
        apart = (places[turn] - 1) * steps[turn] + 1
        spread = (*shares.shape[:dim], apart, *shares.shape[dim + 1 :])
        shares = make.place(shares, spread, dim, 0, apart, steps[turn])
        # The element at i lies in windows that begin from i − kernel + 1 to i.
        before = kernel[turn] - 1 - around[turn]
        shares = make.slice(shares, dim, max(0, -before), apart)
        start = max(0, before)
        reach = x.shape[dim] + kernel[turn] - 1
        kept = min(shares.shape[dim], reach - start)
        shares = make.slice(shares, dim, 0, kept)
        wide = (*shares.shape[:dim], reach, *shares.shape[dim + 1 :])
        shares = make.place(shares, wide, dim, start, start + kept)
    ones = (1,) * space
    return make.reduce("sum", _windows(call, shares, kernel, ones, ones), -1)


def _space(x: Value, kernel_size: Sequence[int]) -> int:
    if len(kernel_size) == 1 or min(x.shape) < 1:
        raise Inexpressible("a pooling of this form")
    return len(kernel_size)


def _counts(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    places: Sequence[int],
    with_padding: bool,
    given: int | None,
) -> Value:
    """The divisor of each window's sum, [places...]."""
    make = call.make
    if given:
        return make.full(float(given), call.dtype)
    sizes = x.shape[len(x.shape) - len(kernel) :]
    counts = make.full(1.0, call.dtype)
    for turn, size in enumerate(sizes):
        found = []
        for place in range(places[turn]):
            start = place * stride[turn] - padding[turn]
            stop = min(start + kernel[turn], size + padding[turn])
            if not with_padding:
                start, stop = max(start, 0), min(stop, size)
            found.append(float(stop - start))
        if len(set(found)) == 1:
            one = make.full(found[0], call.dtype)
        elif len(found) <= 4096:
            one = make.literal(found, call.dtype, (len(found), *(1,) * (len(sizes) - 1 - turn)))
        else:
            raise Inexpressible("a pooling of very many places")
        counts = make.binary("multiply", counts, one, call.dtype)
    return counts


@operation("_adaptive_avg_pool2d_backward")
def _adaptive_backward(call: Call, grad_output: Value, x: Value) -> Value:
    """Windows of one size side by side; where sizes do not divide, they overlap."""
    make, outer = call.make, len(x.shape) - 2
    pairs = list(zip(x.shape[outer:], grad_output.shape[outer:]))
    if min(x.shape) < 1 or any(size % places != 0 for size, places in pairs):
        raise Inexpressible("an adaptive pooling of uneven windows")
    count = math.prod(size // places for size, places in pairs)
    shares = make.binary("divide", grad_output, float(count), call.dtype)
    narrow = tuple(size for _, places in pairs for size in (places, 1))
    wide = tuple(n for size, places in pairs for n in (places, size // places))
    shares = make.reshape(shares, (*x.shape[:outer], *narrow))
    return make.reshape(make.expand(shares, (*x.shape[:outer], *wide)), x.shape)


@operation("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(
    call: Call,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> list[Value]:
    make, space = call.make, _space(x, kernel_size)
    kernel = _wide(kernel_size, space)
    steps, around = _wide(stride or kernel, space), _wide(padding, space)
    apart, places = _wide(dilation, space), call.shape[-space:]
    padded = _padded(call, x, kernel, steps, around, apart, places, -math.inf)
    windows = _windows(call, padded, kernel, steps, apart)
    largest = make.reduce("max", windows, -1)
    # The number of the element in its plane, from that in its window.
    one = (*windows.shape[:-1], 1)
    facts = {"dim": len(one) - 1, "k": 1, "largest": True}
    rest = make.reshape(make.graph.add("top_indices", (windows,), "int64", one, **facts), one[:-1])
    number, factor = None, 1
    for turn in reversed(range(space)):
        within = make.binary("remainder", rest, kernel[turn], "int64")
        rest = make.binary("floor_divide", rest, kernel[turn], "int64")
        begin = make.arange(-around[turn], steps[turn], places[turn], "int64")
        begin = make.reshape(begin, (places[turn], *(1,) * (space - 1 - turn)))
        at = make.binary("add", make.binary("multiply", within, apart[turn], "int64"), begin)
        at = make.binary("multiply", at, factor, "int64")
        number = at if number is None else make.binary("add", number, at, "int64")
        factor *= x.shape[len(x.shape) - space + turn]
    assert number is not None
    return [largest, number]


@operation("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def _max_pool_backward(
    call: Call, grad_output: Value, x: Value, kernel_size: Sequence[int], indices: Value, **_: Any
) -> Value:
    make, space = call.make, _space(x, kernel_size)
    outer = x.shape[: len(x.shape) - space]
    plane, count = math.prod(x.shape[-space:]), math.prod(grad_output.shape[-space:])
    zeros = make.full(0.0, call.dtype, (*outer, plane))
    flat = [make.reshape(one, (*outer, count)) for one in (indices, grad_output)]
    added = make.graph.add("scatter_add", (zeros, *flat), call.dtype, zeros.shape, dim=len(outer))
    return make.reshape(added, x.shape)
