"""The largest elements, and sorting."""

from __future__ import annotations

from math import prod
from typing import Any

from ttrace_torch.specification.expressions import FLOATS, Expressions, Inexpressible, broadcast
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation


@operation("topk")
def _topk(
    call: Call, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Value]:
    make = call.make
    facts = {"dim": dim % max(len(x.shape), 1), "k": k, "largest": bool(largest)}
    if sorted or k < 2:
        return [
            make.graph.add("top_values", (x,), x.dtype, call.shapes[0], **facts),
            make.graph.add("top_indices", (x,), "int64", call.shapes[1], **facts),
        ]
    indices = make.graph.add("top_indices", (x,), "int64", call.shapes[1], **facts, sorted=False)
    # In whatever order the run had the indices.
    values = make.graph.add("gather", (x, indices), x.dtype, call.shapes[0], dim=facts["dim"])
    return [values, indices]


@operation("sort")
def _sort(
    call: Call, x: Value, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> list[Value | None]:
    facts = {"dim": dim % max(len(x.shape), 1), "descending": bool(descending)}
    values = call.make.graph.add("sort_values", (x,), x.dtype, x.shape, **facts)
    if not stable and x.dtype not in FLOATS:
        # Whole numbers are often equal, and any order of equal ones is right.
        return [values, None]
    return [values, call.make.graph.add("sort_indices", (x,), "int64", x.shape, **facts)]


@operation("argsort")
def _argsort(
    call: Call, x: Value, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> Value | None:
    return _sort(call, x, dim, descending, stable)[1]


@operation("kthvalue")
def _kthvalue(call: Call, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The k-th smallest, counted from 1."""
    facts = {"dim": dim % max(len(x.shape), 1), "descending": False}

    def kth(primitive: str, dtype: str) -> Value:
        ordered = call.make.graph.add(primitive, (x,), dtype, x.shape, **facts)
        cut = call.make.slice(ordered, facts["dim"], k - 1, k) if x.shape else ordered
        return call.make.reshape(cut, call.shape)

    return [kth("sort_values", x.dtype), kth("sort_indices", "int64")]


@operation("median")
def _median(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower one of two in the middle."""
    if dim is None:
        flat = call.make.reshape(x, (prod(x.shape),))
        return _kthvalue(call, flat, (flat.shape[0] + 1) // 2, 0)[0]
    size = x.shape[dim % len(x.shape)] if x.shape else 1
    return _kthvalue(call, x, (size + 1) // 2, dim)


@operation("searchsorted")
def _searchsorted(
    call: Call,
    sorted_sequence: Value,
    x: Value,
    right: bool = False,
    side: str | None = None,
    **_: Any,
) -> Value:
    """How many elements of an ascending line are below."""
    make = call.make
    if not isinstance(x, Value) or _.get("sorter") is not None:
        raise Inexpressible("a search of this form")
    of_line = sorted_sequence.shape[:-1]
    line = make.reshape(sorted_sequence, (*of_line, 1, sorted_sequence.shape[-1]))
    below = "less_equal" if right or side == "right" else "less"
    there = make.binary(below, line, make.reshape(x, (*x.shape, 1)), "bool")
    return make.reduce("sum", make.cast(there, call.dtype), len(x.shape), False, call.dtype)


@operation("nonzero")
def _nonzero(call: Call, x: Value) -> Value:
    return places_of(call.make, x, call.shape[0])


def places_of(make: Expressions, x: Value, count: int) -> Value:
    """The places of the `count` elements of x that are not 0, as rows of indices."""
    if count < 0 or -1 in x.shape:
        raise Inexpressible("a choice whose size depends on data")
    return make.graph.add("nonzero", (x,), "int64", (count, len(x.shape)))


def chosen_rows(make: Expressions, mask: Value, count: int) -> Value:
    """The numbers of the `count` elements of a mask that are true, in row-major order."""
    flat = make.reshape(mask, (prod(mask.shape),))
    return make.reshape(places_of(make, flat, count), (count,))


@operation("masked_select")
def _masked_select(call: Call, x: Value, mask: Value) -> Value:
    make = call.make
    shape = broadcast(x.shape, mask.shape)
    rows = chosen_rows(make, make.expand(mask, shape), call.shape[0])
    flat = make.reshape(make.expand(x, shape), (prod(shape),))
    return make.graph.add("index_rows", (flat, rows), x.dtype, call.shape, dim=0)


@operation("histc")
def _histc(call: Call, x: Value, bins: int = 100, min: Any = 0, max: Any = 0) -> Value:
    """How many elements lie in each bin; exact where the bins are the whole numbers."""
    make = call.make
    if min != 0 or max != bins - 1:
        raise Inexpressible("bins that are no whole numbers")
    count = 1
    for size in x.shape:
        count *= size
    # A bin is max / bins wide: element v lies in bin ⌊v · bins / max⌋, the largest in the last.
    flat = make.reshape(x, (count, 1))
    place = make.binary("divide", make.binary("multiply", flat, bins, "float64"), max, "float64")
    place = make.unary("clamp", make.unary("floor", place), high=bins - 1)
    # Counted in whole numbers, which no rounding changes.
    numbers = make.arange(0, 1, bins, "int64")
    there = make.binary("equal", make.cast(place, "int64"), numbers, "bool")
    counts = make.reduce("sum", make.cast(there, "int64"), 0, False, "int64")
    return make.cast(counts, call.dtype)


@operation("bincount")
def _bincount(call: Call, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    if weights is not None or -1 in call.shape:
        raise Inexpressible("counts whose number depends on data")
    make = call.make
    numbers = make.arange(0, 1, call.shape[0], x.dtype)
    there = make.binary("equal", make.reshape(x, (*x.shape, 1)), numbers, "bool")
    return make.reduce("sum", make.cast(there, call.dtype), 0, False, call.dtype)
