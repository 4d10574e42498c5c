"""Embeddings, and reading and writing by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ttrace_torch.specification.expressions import FLOATS, Inexpressible
from ttrace_torch.specification.graph import Graph, Value, attribute
from ttrace_torch.specification.operations.table import Call, operation


@operation("embedding")
def _embedding(call: Call, weight: Value, indices: Value, **_: Any) -> Value:
    return call.make.graph.add("embedding", (weight, indices), call.dtype, call.shape)


@operation("embedding_dense_backward")
def _embedding_backward(
    call: Call,
    grad_output: Value,
    indices: Value,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Value:
    if scale_grad_by_freq:
        raise Inexpressible("gradients scaled by frequency")
    return call.make.graph.add(
        "embedding_grad",
        (grad_output, indices),
        call.dtype,
        call.shape,
        rows=num_weights,
        padding=max(padding_idx, -1),
    )


@operation("gather")
def _gather(call: Call, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    return gathered(call, x, dim, index)


def gathered(call: Call, x: Value, dim: int, index: Value) -> Value:
    """x at `index` along `dim`."""
    return call.make.graph.add(
        "gather", (x, index), x.dtype, index.shape, dim=dim % max(len(x.shape), 1)
    )


@operation("scatter_add")
def _scatter_add(call: Call, x: Value, dim: int, index: Value, src: Value) -> Value:
    return _added(call, x, dim, index, src)


def _added(call: Call, x: Value, dim: int, index: Value, src: Value) -> Value:
    make = call.make
    dim %= max(len(x.shape), 1)
    for at, size in enumerate(index.shape):
        src = make.slice(src, at, 0, size)
    return make.graph.add("scatter_add", (x, index, src), x.dtype, x.shape, dim=dim)


@operation("scatter")
def _scatter(
    call: Call, x: Value, dim: int, index: Value, src: Any = None, value: Any = None, **other: Any
) -> Value:
    if other.get("reduce") is not None:
        raise Inexpressible("a scatter with a reduction")
    make = call.make
    dim %= max(len(x.shape), 1)
    if src is None and not isinstance(value, Value):
        # One number for all: it does not matter which of equal indices writes it.
        ones = make.full(1, "int32", index.shape)
        none = make.full(0, "int32", x.shape)
        there = make.binary("not_equal", _added(call, none, dim, index, ones), 0, "bool")
        filling = make.limit(value, x.dtype)
        return make.graph.add("where", (there, filling, x), x.dtype, x.shape)
    primitive = make.graph.nodes[index.id].primitive
    if index.shape[dim] != 1 and primitive not in ("top_indices", "sort_indices"):
        raise Inexpressible("a scatter to indices that may be equal")
    written = make.expand(make.limit(value, x.dtype), index.shape) if src is None else src
    for at, size in enumerate(index.shape):
        written = make.slice(written, at, 0, size)
    return _written(call, x, written, lambda base, new: _added(call, base, dim, index, new))


def _written(call: Call, x: Value, new: Value, add: Callable[[Value, Value], Value]) -> Value:
    """x with `new` in the place of some elements, no two of which are one.

    add: adds its second argument to these elements of its first. What x holds there does not
        matter, not even where it is infinite.
    """
    make = call.make
    zero = 0.0 if x.dtype in FLOATS else 0
    zeros = make.full(zero, x.dtype, x.shape)
    placed = add(zeros, new)
    if make.is_constant(x, zero):
        return placed
    ones = make.expand(make.full(1.0 if x.dtype in FLOATS else 1, x.dtype), new.shape)
    there = make.binary("not_equal", add(zeros, ones), zero, "bool")
    return make.graph.add("where", (there, placed, x), x.dtype, x.shape)


@operation("index_select")
def _index_select(call: Call, x: Value, dim: int, index: Value) -> Value:
    return _rows(call, x, index, dim % max(len(x.shape), 1))


def _rows(call: Call, x: Value, index: Value, dim: int) -> Value:
    shape = (*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :])
    return call.make.graph.add("index_rows", (x, index), x.dtype, shape, dim=dim)


@operation("index_add")
def _index_add(
    call: Call, x: Value, dim: int, index: Value, source: Value, alpha: Any = 1
) -> Value:
    if alpha != 1:
        source = call.make.binary("multiply", source, float(alpha), x.dtype)
    dim %= max(len(x.shape), 1)
    return call.make.graph.add("add_rows", (x, index, source), x.dtype, x.shape, dim=dim)


class _Indexed:
    """x[indices] as rows: x with the indexed dimensions made one, and one number for each row."""

    def __init__(self, call: Call, x: Value, indices: Sequence[Value | None]) -> None:
        make = call.make
        there = [dim for dim, index in enumerate(indices) if index is not None]
        tensors = [index for index in indices if index is not None]
        if any(index.dtype in ("bool", "uint8") for index in tensors):
            raise Inexpressible("a choice whose size depends on data")
        if not there or there != list(range(there[0], there[0] + len(there))):
            raise Inexpressible("indices of dimensions that are apart")
        if -1 in x.shape or any(-1 in index.shape for index in tensors):
            raise Inexpressible("indices whose number depends on data")
        self.dim, last = there[0], there[-1]
        sizes = x.shape[self.dim : last + 1]
        count = 1
        for size in sizes:
            count *= size
        self.inner = (*x.shape[: self.dim], count, *x.shape[last + 1 :])
        index = tensors[0]
        if len(tensors) > 1:
            index = self._combined(call, tensors, sizes)
        self.index_shape = index.shape
        rows = 1
        for size in index.shape:
            rows *= size
        self.rows = make.reshape(index, (rows,))
        self.distinct = _are_distinct(make.graph, tensors, index.shape)
        kinds = [make.graph.nodes[one.id].primitive for one in tensors]
        order = len(kinds) == 1 and kinds[0] == "sort_indices" and len(index.shape) == 1
        self.all = order and rows == count

    @staticmethod
    def _combined(call: Call, tensors: Sequence[Value], sizes: Sequence[int]) -> Value:
        make = call.make
        total: Value | None = None
        for index, size in zip(tensors, sizes):
            wrapped = make.binary("remainder", index, size, index.dtype)
            total = (
                wrapped
                if total is None
                else make.binary(
                    "add", make.binary("multiply", total, size, index.dtype), wrapped, index.dtype
                )
            )
        assert total is not None
        return total

    def shape_of_rows(self) -> tuple[int, ...]:
        """The shape of the rows that are read or written."""
        return (*self.inner[: self.dim], *self.rows.shape, *self.inner[self.dim + 1 :])


def _are_distinct(graph: Graph, tensors: Sequence[Value], shape: tuple[int, ...]) -> bool:
    """Whether no two of the places that index tensors name together are one: along every dimension
    of `shape`, to which they broadcast, one of them counts, or is an order or choice of its own."""
    counted: set[int] = set()
    ordered: list[set[int]] = []
    for tensor in tensors:
        primitive, dim = _differs(graph, tensor.id)
        if primitive == "arange":
            counted.add(dim)
        elif primitive:
            ordered.append({dim})
    needed = {place - len(shape) for place, size in enumerate(shape) if size != 1}
    # An order differs only between elements that agree in all other dimensions.
    return any(needed <= counted | own for own in (set(), *ordered))


def _differs(graph: Graph, number: int) -> tuple[str, int]:
    """The primitive that makes a value's elements differ along a dimension, and that dimension,
    counted from the last as -1; an empty name if none is known to."""
    node = graph.nodes[number]
    count = len(node.shape)
    if node.primitive == "arange" and attribute(node, "start") >= 0 < attribute(node, "step"):
        return node.primitive, -1
    if node.primitive in ("top_indices", "sort_indices"):
        return node.primitive, attribute(node, "dim") - count
    if node.primitive == "reshape":
        source = graph.nodes[node.arguments[0]]
        wide = [dim for dim in range(len(source.shape)) if source.shape[dim] != 1]
        places = [dim for dim in range(count) if node.shape[dim] != 1]
        primitive, dim = _differs(graph, node.arguments[0])
        # Only dimensions of one element come or go.
        moved = [source.shape[one] for one in wide] != [node.shape[one] for one in places]
        if not moved and primitive and dim + len(source.shape) in wide:
            return primitive, places[wide.index(dim + len(source.shape))] - count
    return "", 0


@operation("index", "_unsafe_index")
def _index(call: Call, x: Value, indices: Sequence[Value | None]) -> Value:
    found = _Indexed(call, x, indices)
    rows = _rows(call, call.make.reshape(x, found.inner), found.rows, found.dim)
    return call.make.reshape(rows, call.shape)


@operation("index_put", "_index_put_impl", "_unsafe_index_put")
def _index_put(
    call: Call,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
    **_: Any,
) -> Value:
    make = call.make
    only = indices[0] if indices else None
    masked = len(indices) == 1 and only is not None and only.dtype == "bool"
    if masked and only is not None and not accumulate and values.shape in ((), (1,)):
        mask = make.reshape(only, only.shape + (1,) * (len(x.shape) - len(only.shape)))
        chosen = make.reshape(make.cast(values, x.dtype), ())
        return make.graph.add("where", (mask, chosen, x), x.dtype, x.shape)
    found = _Indexed(call, x, indices)
    whole = (
        *x.shape[: found.dim],
        *found.index_shape,
        *x.shape[found.dim + len([i for i in indices if i is not None]) :],
    )
    written = make.reshape(make.expand(values, whole), found.shape_of_rows())
    base = make.reshape(x, found.inner)

    def add(to: Value, rows: Value) -> Value:
        return make.graph.add(
            "add_rows", (to, found.rows, rows), x.dtype, found.inner, dim=found.dim
        )

    if accumulate:
        return make.reshape(add(base, written), x.shape)
    if not found.distinct:
        raise Inexpressible("a write to indices that may be equal")
    if found.all:
        # What x held does not matter: often it was never written.
        base = make.full(0.0 if x.dtype in FLOATS else 0, x.dtype, found.inner)
    return make.reshape(_written(call, base, written, add), x.shape)
