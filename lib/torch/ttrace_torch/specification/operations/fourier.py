"""Fourier transforms, and their backwards, which are transforms themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ttrace_torch.specification.complexes import complex_of, parts_of
from ttrace_torch.specification.expressions import Expressions, Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

# Lines of a number of elements with a larger prime factor have no primitive.
_LARGEST_FACTOR = 4096


@operation("_fft_c2c")
def _fft_c2c(call: Call, x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    make = call.make
    parts = parts_of(make, x)
    for along in reversed(dim):
        parts = _transformed(make, parts, along % len(x.shape), not forward)
    return complex_of(make, *_scaled(make, parts, normalization, [x.shape[at] for at in dim]))


@operation("_fft_r2c")
def _fft_r2c(call: Call, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    make = call.make
    *others, last = (along % len(x.shape) for along in dim)
    parts = _transformed(make, (x,), last, False, call.shape[last])
    for along in reversed(others):
        parts = _transformed(make, parts, along, False)
    return complex_of(make, *_scaled(make, parts, normalization, [x.shape[at] for at in dim]))


@operation("_fft_c2r")
def _fft_c2r(
    call: Call, x: Value, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Value:
    make = call.make
    *others, last = (along % len(x.shape) for along in dim)
    parts = parts_of(make, x)
    for along in reversed(others):
        parts = _transformed(make, parts, along, True)
    # The other half of the frequencies, in descending order, are the conjugates of the first.
    real, imaginary = parts
    missing = last_dim_size - real.shape[last]

    def whole(part: Value, primitive: str | None) -> Value:
        tail = make.slice(part, last, 1, 1 + missing)
        tail = make.graph.add("flip", (tail,), tail.dtype, tail.shape, dims=(last,))
        if primitive is not None:
            tail = make.unary(primitive, tail)
        return make.concat([part, tail], last)

    if missing > 0:
        real, imaginary = whole(real, None), whole(imaginary, "negate")
    found = _part(make, (real, imaginary), last, True, last_dim_size, imaginary=False)
    sizes = [call.shape[at % len(call.shape)] for at in dim]
    return _scaled(make, (found,), normalization, sizes)[0]


def _transformed(
    make: Expressions, parts: Sequence[Value], dim: int, inverse: bool, kept: int | None = None
) -> tuple[Value, Value]:
    """The first `kept` frequencies, or all, of the lines along `dim`.

    parts: both of a complex value; of a real one the first alone.
    """
    count = parts[0].shape[dim] if kept is None else kept
    real, imaginary = (
        _part(make, parts, dim, inverse, count, imaginary=one) for one in (False, True)
    )
    return real, imaginary


def _part(
    make: Expressions,
    parts: Sequence[Value],
    dim: int,
    inverse: bool,
    kept: int,
    *,
    imaginary: bool,
) -> Value:
    first = parts[0]
    if first.dtype == "float16":
        raise Inexpressible("a transform in half precision, whose stages may be rounded to it")
    if -1 in first.shape or _largest_factor(first.shape[dim]) > _LARGEST_FACTOR:
        raise Inexpressible("a transform of lines of this length")
    shape = (*first.shape[:dim], kept, *first.shape[dim + 1 :])
    named = {} if len(parts) == 2 else {"arguments": ("x",)}
    facts = {"dim": dim, "inverse": inverse, "imaginary": imaginary}
    return make.graph.add("fourier", parts, first.dtype, shape, **facts, **named)


def _scaled(
    make: Expressions, parts: Sequence[Value], normalization: int, sizes: Sequence[int]
) -> list[Value]:
    """normalization: 0 for none, 1 to divide by √n, 2 to divide by n, the number of elements."""
    if normalization == 0:
        return list(parts)
    count = math.prod(sizes)
    factor = 1 / count if normalization == 2 else 1 / math.sqrt(count)
    scale = make.full(factor, parts[0].dtype, ())
    return [make.binary("multiply", part, scale) for part in parts]


def _largest_factor(number: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            largest, number = factor, number // factor
        factor += 1
    return max(largest, number)
