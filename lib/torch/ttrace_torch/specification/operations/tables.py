"""Embeddings, and reading and writing by index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Callable

from ttrace_torch.specification.expressions import FLOATS, Inexpressible
from ttrace_torch.specification.graph import Graph, Value, attribute
from ttrace_torch.specification.operations.scattering import scattered
from ttrace_torch.specification.operations.selection import chosen_rows
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
    make = call.make
    if other.get("reduce") is not None:
        reduce = {"add": "sum", "multiply": "prod"}[other["reduce"]]
        src = make.expand(make.limit(value, x.dtype), index.shape) if src is None else src
        return scattered(call, x, dim, index, src, reduce, True)
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
    """x with some of its elements replaced by those of `new`, no element twice.

    add: adds its second argument to these elements of its first. The result does not depend on
        what x holds in them, even where that is infinite.
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


@operation("masked_scatter")
def _masked_scatter(call: Call, x: Value, mask: Value, source: Value) -> Value:
    make = call.make
    shape, count = call.shape, prod(source.shape)
    base = make.expand(x, shape)
    if count == 0:
        return base
    there, place = _turns_of_mask(call, mask, shape, count)
    rows = _rows(call, make.reshape(source, (count,)), place, 0)
    return make.graph.add(
        "where",
        (make.reshape(there, shape), make.reshape(make.cast(rows, x.dtype), shape), base),
        x.dtype,
        shape,
    )


def _turns_of_mask(
    call: Call, mask: Value, shape: tuple[int, ...], count: int
) -> tuple[Value, Value]:
    """A mask, expanded to `shape` and made flat, and which of `count` elements belongs to each
    place: the n-th true one has the n-th."""
    make = call.make
    if -1 in shape or count < 0:
        raise Inexpressible("a write of a size that depends on data")
    there = make.reshape(make.expand(make.cast(mask, "bool"), shape), (prod(shape),))
    before = make.unary("cumsum", make.cast(there, "int64"), dim=0)
    turn = make.binary("subtract", before, 1, "int64")
    return there, make.unary("clamp", turn, low=0, high=count - 1)


@operation("masked_scatter_backward")
def _masked_scatter_backward(
    call: Call, grad_output: Value, mask: Value, sizes: Sequence[int]
) -> Value:
    make = call.make
    count = prod(call.shape)
    if count == 0:
        return make.full(0.0, call.dtype, call.shape)
    there, place = _turns_of_mask(call, mask, grad_output.shape, count)
    flat = make.reshape(grad_output, there.shape)
    # Where the mask is false nothing was taken from the source.
    zero = make.full(0.0, call.dtype)
    taken = make.graph.add("where", (there, flat, zero), call.dtype, there.shape)
    zeros = make.full(0.0, call.dtype, (count,))
    found = make.graph.add("add_rows", (zeros, place, taken), call.dtype, (count,), dim=0)
    return make.reshape(found, call.shape)


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
    """x[indices] as a choice of rows: the indexed dimensions of x become one dimension `dim`, and
    the index tensors become one list of row numbers."""

    def __init__(self, call: Call, x: Value, indices: Sequence[Value | None]) -> None:
        make = call.make
        there = [dim for dim, index in enumerate(indices) if index is not None]
        tensors = [index for index in indices if index is not None]
        if any(index.dtype in ("bool", "uint8") for index in tensors):
            raise Inexpressible("a mask beside other indices")
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
    """Whether index tensors, broadcast to `shape`, are known to name no place twice.

    They do not if every dimension of `shape` has a tensor whose elements differ along it: one that
    counts up, or at most one that is an order (sort, topk, nonzero).
    """
    counted: set[int] = set()
    ordered: list[set[int]] = []
    for tensor in tensors:
        primitive, dim = _differs(graph, tensor.id)
        if primitive == "arange":
            counted.add(dim)
        elif primitive:
            ordered.append({dim})
    needed = {place - len(shape) for place, size in enumerate(shape) if size != 1}
    # Elements of an order are known to differ only where all their other indices are equal, so that
    # two orders together prove nothing.
    return any(needed <= counted | own for own in (set(), *ordered))


def _differs(graph: Graph, number: int) -> tuple[str, int]:
    """The primitive by which a value's elements differ along a dimension, and that dimension as a
    negative number (-1 is the last); an empty name if no such primitive is known."""
    node = graph.nodes[number]
    count = len(node.shape)
    if node.primitive == "arange" and attribute(node, "start") >= 0 < attribute(node, "step"):
        return node.primitive, -1
    if node.primitive in ("top_indices", "sort_indices"):
        return node.primitive, attribute(node, "dim") - count
    if node.primitive == "nonzero" and node.shape[1] == 1:
        return node.primitive, -2
    if node.primitive == "reshape":
        source = graph.nodes[node.arguments[0]]
        wide = [dim for dim in range(len(source.shape)) if source.shape[dim] != 1]
        places = [dim for dim in range(count) if node.shape[dim] != 1]
        primitive, dim = _differs(graph, node.arguments[0])
        # A reshape that only adds or drops dimensions of extent 1 keeps them different.
        moved = [source.shape[one] for one in wide] != [node.shape[one] for one in places]
        if not moved and primitive and dim + len(source.shape) in wide:
            return primitive, places[wide.index(dim + len(source.shape))] - count
    return "", 0


@operation("index", "_unsafe_index")
def _index(call: Call, x: Value, indices: Sequence[Value | None]) -> Value:
    mask = _Mask.of(x, indices)
    if mask is not None:
        x, indices = mask.as_rows(call, x, call.shape[mask.dim])
    found = _Indexed(call, x, indices)
    rows = _rows(call, call.make.reshape(x, found.inner), found.rows, found.dim)
    return call.make.reshape(rows, call.shape)


class _Mask:
    """A mask that is the only index of x. It covers the dimensions `dim` to `end` of x."""

    def __init__(self, mask: Value, dim: int) -> None:
        """dim: the dimension of x that is the mask's first."""
        self.mask = mask
        self.dim = dim
        self.end = dim + len(mask.shape)

    @staticmethod
    def of(x: Value, indices: Sequence[Value | None]) -> _Mask | None:
        """The mask of `x[indices]`; None if another index stands beside it or is no mask."""
        there = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        if len(there) != 1 or there[0][1].dtype not in ("bool", "uint8") or -1 in x.shape:
            return None
        return _Mask(there[0][1], there[0][0])

    def as_rows(self, call: Call, x: Value, count: int) -> tuple[Value, list[Value | None]]:
        """x with the mask's dimensions merged into one, and the indices of the `count` rows that
        the mask chooses."""
        make = call.make
        flat = (*x.shape[: self.dim], prod(self.mask.shape), *x.shape[self.end :])
        rows = chosen_rows(make, self.mask, count)
        return make.reshape(x, flat), [*[None] * self.dim, rows]

    def count_in(self, x: Value, values: Value) -> int | None:
        """The number of chosen rows, read off the shape of the values that are written to them;
        None if one row is written to all of them."""
        after = len(x.shape) - self.end
        place = len(values.shape) - after - 1
        return None if place < 0 or values.shape[place] == 1 else values.shape[place]

    def filled(self, call: Call, x: Value, values: Value) -> Value:
        """x with one row of values written to all chosen rows."""
        make = call.make
        after = len(x.shape) - self.end
        mask = make.cast(self.mask, "bool")
        mask = make.reshape(mask, mask.shape + (1,) * after)
        chosen = make.cast(values, x.dtype)
        place = len(values.shape) - after - 1
        if place >= 0:
            ones = (1,) * len(self.mask.shape)
            chosen = make.reshape(
                chosen, (*values.shape[:place], *ones, *values.shape[place + 1 :])
            )
        return make.graph.add("where", (mask, chosen, x), x.dtype, x.shape)


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
    shape = x.shape
    mask = _Mask.of(x, indices)
    if mask is not None:
        count = mask.count_in(x, values)
        if count is None and not accumulate:
            return mask.filled(call, x, values)
        if count is None:
            raise Inexpressible("a row that is added to rows whose number depends on data")
        x, indices = mask.as_rows(call, x, count)
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
        return make.reshape(add(base, written), shape)
    if not found.distinct:
        raise Inexpressible("a write to indices that may be equal")
    if found.all:
        # All elements are written, so those of x do not matter. Often they were never initialised.
        base = make.full(0.0 if x.dtype in FLOATS else 0, x.dtype, found.inner)
    return make.reshape(_written(call, base, written, add), shape)
