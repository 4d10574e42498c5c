"""Elements that are put together at an index: sums, means, products and extremes."""

from __future__ import annotations

from ttrace_torch.specification.expressions import FLOATS, Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

_NAMES = {"sum": "sum", "mean": "mean", "prod": "product"}


@operation("scatter_reduce")
def _scatter_reduce(
    call: Call,
    x: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    include_self: bool = True,
) -> Value:
    for at, size in enumerate(index.shape):
        src = call.make.slice(src, at, 0, size)
    return scattered(call, x, dim, index, src, reduce, include_self)


@operation("index_reduce")
def _index_reduce(
    call: Call,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    include_self: bool = True,
) -> Value:
    make = call.make
    dim %= max(len(x.shape), 1)
    ones = [1] * len(source.shape)
    ones[dim] = source.shape[dim]
    rows = make.expand(make.reshape(index, ones), source.shape)
    return scattered(call, x, dim, rows, source, reduce, include_self)


def scattered(
    call: Call, x: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool
) -> Value:
    """x with the elements of src at `index` along `dim` put together.

    reduce: as torch calls it: sum, mean, prod, amax or amin.
    include_self: whether what x holds in these elements counts, too.
    """
    facts = {"dim": dim % max(len(x.shape), 1), "include_self": bool(include_self)}
    arguments = (x, index, src)
    if reduce in ("amax", "amin"):
        largest = reduce == "amax"
        return call.make.graph.add(
            "scatter_extreme", arguments, x.dtype, x.shape, **facts, largest=largest
        )
    if reduce == "mean" and x.dtype not in FLOATS:
        raise Inexpressible("a mean of whole numbers")
    return call.make.graph.add(
        "scatter_reduce", arguments, x.dtype, x.shape, **facts, reduce=_NAMES[reduce]
    )


@operation("index_fill")
def _index_fill(call: Call, x: Value, dim: int, index: Value, value: Value | float) -> Value:
    """One value for all: it does not matter whether indices are equal."""
    make = call.make
    dim %= max(len(x.shape), 1)
    size = x.shape[dim]
    ones = make.full(1, "int32", index.shape)
    none = make.full(0, "int32", (size,))
    times = make.graph.add("add_rows", (none, index, ones), "int32", (size,), dim=0)
    there = make.compared("not_equal", times, 0)
    there = make.reshape(there, [size if at == dim else 1 for at in range(len(x.shape))])
    return make.graph.add("where", (there, call.filling(value), x), x.dtype, x.shape)
