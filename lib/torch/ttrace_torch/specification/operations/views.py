"""Views, and the operations that cut and join tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation, view
from ttrace_torch.specification.strides import Step, strided_steps

Steps = Sequence[tuple[Step, ...]]


@view("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "flatten")
def _reshaped(call: Call, x: Value, dtype: Any = None, **_: Any) -> Steps:
    if call.overload == "dtype":
        raise Inexpressible("the bits of one type as another type")
    return [(Step("reshape", call.shape),)]


@view("alias", "detach", "lift_fresh", "_conj", "resolve_conj", "view_as")
def _alias(call: Call, x: Value, **_: Any) -> Steps:
    return [()]


@view("t")
def _t(call: Call, x: Value) -> Steps:
    dims = tuple(reversed(range(len(x.shape))))
    return [(Step("permute", call.shape, dims),)]


@view("mT")
def _matrices_transposed(call: Call, x: Value) -> Steps:
    return _transpose(call, x, -2, -1)


@view("transpose")
def _transpose(call: Call, x: Value, dim0: int, dim1: int) -> Steps:
    dims = list(range(len(x.shape)))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return [(Step("permute", call.shape, tuple(dims)),)]


@view("permute")
def _permute(call: Call, x: Value, dims: Sequence[int]) -> Steps:
    return [(Step("permute", call.shape, tuple(dim % len(x.shape) for dim in dims)),)]


@view("expand", "expand_as", "broadcast_to")
def _expand(call: Call, x: Value, **_: Any) -> Steps:
    return [(Step("expand", call.shape),)]


def bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Start and stop of a slice, as Python's."""
    start, stop, _ = slice(start, end).indices(size)
    return start, max(start, stop)


@view("slice")
def _slice(
    call: Call,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Steps:
    dim %= len(x.shape)
    return [(Step("slice", call.shape, (dim, *bounds(x.shape[dim], start, end), step)),)]


@view("narrow")
def _narrow(call: Call, x: Value, dim: int, start: int, length: int) -> Steps:
    if not isinstance(start, int):
        raise Inexpressible("a place that depends on data")
    dim %= len(x.shape)
    start %= max(x.shape[dim], 1)
    return [(Step("slice", call.shape, (dim, start, start + length, 1)),)]


@view("select")
def _select(call: Call, x: Value, dim: int, index: int) -> Steps:
    if not isinstance(index, int):
        raise Inexpressible("an index that depends on data")
    dim %= len(x.shape)
    return [_selected(x, dim, index, call.shape)]


@operation("broadcast_tensors")
def _broadcast_tensors(call: Call, tensors: Sequence[Value]) -> list[Value]:
    return [call.make.expand(x, shape) for x, shape in zip(tensors, call.shapes)]


@view("diagonal")
def _diagonal(call: Call, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Steps:
    if -1 in x.shape:
        raise Inexpressible("a diagonal of a size that depends on data")
    return [_along_diagonal(x.shape, call.shape, offset, dim1, dim2)]


def _along_diagonal(
    whole: tuple[int, ...], shape: tuple[int, ...], offset: int, dim1: int, dim2: int
) -> tuple[Step, ...]:
    """In row-major order the elements of a diagonal are one more than a row apart."""
    pair = (dim1 % len(whole), dim2 % len(whole))
    rows, columns = (whole[dim] for dim in pair)
    order = (*(dim for dim in range(len(whole)) if dim not in pair), *pair)
    outer = tuple(whole[dim] for dim in order[:-2])
    start = offset if offset >= 0 else -offset * columns
    stop = start + max(shape[-1] - 1, 0) * (columns + 1) + min(shape[-1], 1)
    return (
        Step("permute", (*outer, rows, columns), order),
        Step("reshape", (*outer, rows * columns)),
        Step("slice", shape, (len(outer), start, stop, columns + 1)),
    )


@operation("diagonal_backward")
def _diagonal_backward(
    call: Call, grad_output: Value, input_sizes: Any, offset: int, dim1: int, dim2: int
) -> Value:
    make = call.make
    steps = _along_diagonal(call.shape, grad_output.shape, offset, dim1, dim2)
    moved, flat, cut = steps
    placed = make.place(grad_output, flat.shape, *cut.where)
    back = sorted(range(len(moved.where)), key=moved.where.__getitem__)
    return make.permute(make.reshape(placed, moved.shape), back)


@operation("trace")
def _trace(call: Call, x: Value) -> Value:
    count = min(x.shape)
    cut = call.make.reshape(x, (x.shape[0] * x.shape[1],))
    step = x.shape[1] + 1
    diagonal = call.make.slice(cut, 0, 0, max(count - 1, 0) * step + min(count, 1), step)
    return call.make.reduce("sum", diagonal, None, False, call.dtype)


@view("unbind")
def _unbind(call: Call, x: Value, dim: int = 0) -> Steps:
    dim %= len(x.shape)
    return [_selected(x, dim, index, shape) for index, shape in enumerate(call.shapes)]


# The unsafe ones, of cells of recurrent networks, are views too; their schemas do not say so.
@view("split", "split_with_sizes", "chunk", "tensor_split")
@view("unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk")
def _split(call: Call, x: Value, dim: int = 0, **_: Any) -> Steps:
    dim %= len(x.shape)
    found, start = [], 0
    for shape in call.shapes:
        if shape[dim] < 0:
            raise Inexpressible("sizes that depend on data")
        found.append((Step("slice", shape, (dim, start, start + shape[dim], 1)),))
        start += shape[dim]
    return found


@view("as_strided")
def _as_strided(
    call: Call,
    x: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Steps:
    offset = storage_offset or 0
    steps = strided_steps(x.shape, tuple(size), tuple(stride), offset)
    if steps is not None:
        return [steps]
    # Windows that share elements, of an attention that slides.
    reach = offset + sum((extent - 1) * step for extent, step in zip(size, stride))
    if _count(x.shape) <= reach:
        raise Inexpressible("a view by strides of memory beyond its tensor")
    return [(Step("gather", tuple(size), (offset, *stride)),)]


def _selected(x: Value, dim: int, index: int, shape: tuple[int, ...]) -> tuple[Step, ...]:
    index %= x.shape[dim]
    cut = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    return Step("slice", cut, (dim, index, index + 1, 1)), Step("reshape", shape)


@operation("clone", "contiguous", "lift_fresh_copy", "lift", "_to_cpu", "_fw_primal")
def _clone(call: Call, x: Value, **_: Any) -> Value:
    return x


@operation("_to_copy", "to")
def _to_copy(call: Call, x: Value, **_: Any) -> Value:
    return call.make.cast(x, call.dtype)


@operation("copy")
def _copy(call: Call, x: Value, src: Value, **_: Any) -> Value:
    return call.make.expand(call.make.cast(src, x.dtype), x.shape)


@operation("_chunk_cat", "fsdp::chunk_cat", "fsdp::chunk_cat_mixed_dtype")
def _chunk_cat(call: Call, tensors: Sequence[Value], dim: int, num_chunks: int, **_: Any) -> Value:
    """Gradients one after the other, as FSDP2 reduces them; one rank makes one chunk of each."""
    if num_chunks != 1 or dim != 0:
        raise Inexpressible("chunks for several ranks")
    make = call.make
    flat = [make.reshape(make.cast(x, call.dtype), (math.prod(x.shape),)) for x in tensors]
    return make.reshape(make.concat(flat, 0), call.shape)


@operation("cat", "concat")
def _cat(call: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    # By an old rule, empty tensors of one dimension are left out.
    kept = [x for x in tensors if x.shape != (0,) or len(call.shape) == 1]
    cast = [call.make.cast(x, call.dtype) for x in kept]
    return call.make.concat(cast, dim % len(call.shape))


@operation("stack")
def _stack(call: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(call.shape)
    parts = [
        call.make.reshape(x, (*x.shape[:dim], 1, *x.shape[dim:]))
        for x in (call.make.cast(x, call.dtype) for x in tensors)
    ]
    return call.make.concat(parts, dim)


@operation("flip")
def _flip(call: Call, x: Value, dims: Sequence[int]) -> Value:
    chosen = tuple(sorted(dim % len(x.shape) for dim in dims))
    return call.make.graph.add("flip", (x,), x.dtype, x.shape, dims=chosen)


@operation("roll")
def _roll(call: Call, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    make = call.make
    if not dims:
        flat = make.reshape(x, (_count(x.shape),))
        return make.reshape(_rolled(call, flat, shifts[0], 0), x.shape)
    for shift, dim in zip(shifts, dims):
        x = _rolled(call, x, shift, dim % len(x.shape))
    return x


def _rolled(call: Call, x: Value, shift: int, dim: int) -> Value:
    size = x.shape[dim]
    shift = shift % size if size else 0
    if shift == 0:
        return x
    tail = call.make.slice(x, dim, size - shift, size)
    return call.make.concat([tail, call.make.slice(x, dim, 0, size - shift)], dim)


@operation("repeat")
def _repeat(call: Call, x: Value, repeats: Sequence[int]) -> Value:
    make = call.make
    sizes = (1,) * (len(repeats) - len(x.shape)) + x.shape
    apart = make.reshape(x, tuple(size for one in sizes for size in (1, one)))
    wide = make.expand(apart, tuple(n for pair in zip(repeats, sizes) for n in pair))
    return make.reshape(wide, call.shape)


@operation("constant_pad_nd")
def _pad(call: Call, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    make = call.make
    for turn in range(len(pad) // 2):
        dim = len(x.shape) - 1 - turn
        before, after = pad[2 * turn], pad[2 * turn + 1]
        x = make.slice(x, dim, max(0, -before), x.shape[dim] - max(0, -after))
        start, size = max(0, before), max(0, before) + x.shape[dim] + max(0, after)
        shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
        stop = start + x.shape[dim]
        if value == 0:
            x = make.place(x, shape, dim, start, stop)
        elif shape != x.shape:
            x = make.replace(make.full(value, x.dtype, shape), x, dim, start, stop)
    return x


@operation("pad")
def _pad_of_mode(
    call: Call, x: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Value:
    if mode != "constant":
        raise Inexpressible(f"padding of the mode {mode}")
    return _pad(call, x, pad, value or 0)


@operation("slice_backward")
def _slice_backward(
    call: Call, grad_output: Value, input_sizes: Any, dim: int, start: int, end: int, step: int
) -> Value:
    dim %= len(call.shape)
    where = bounds(call.shape[dim], start, end)
    return call.make.place(grad_output, call.shape, dim, *where, step)


@operation("select_backward")
def _select_backward(
    call: Call, grad_output: Value, input_sizes: Any, dim: int, index: int
) -> Value:
    dim %= len(call.shape)
    index %= call.shape[dim]
    row = call.make.reshape(grad_output, (*call.shape[:dim], 1, *call.shape[dim + 1 :]))
    return call.make.place(row, call.shape, dim, index, index + 1)


@operation("slice_scatter")
def _slice_scatter(
    call: Call,
    x: Value,
    src: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    dim %= len(x.shape)
    return call.make.replace(x, src, dim, *bounds(x.shape[dim], start, end), step)


@operation("select_scatter")
def _select_scatter(call: Call, x: Value, src: Value, dim: int, index: int) -> Value:
    dim %= len(x.shape)
    index %= x.shape[dim]
    row = call.make.reshape(src, (*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    return call.make.replace(x, row, dim, index, index + 1)


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
