"""Builds expressions of primitives: what the translations of operations are written in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ttrace_torch.specification.graph import Graph, Value, attribute, is_empty
from ttrace_torch.specification.rounding import Number, factor_in, limit_in

FLOATS = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    "float8_e4m3fn": 3,
    "float8_e5m2": 2,
}


class Inexpressible(Exception):
    """No primitive expresses the operation."""


class Expressions:
    """Makes values of one graph. Steps that change nothing make no value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # Value -> the `eps` of the normalisation that it is the 1/σ of.
        self.eps: dict[int, float] = {}

    # Constants.

    def full(self, value: Number, dtype: str, shape: Sequence[int] = ()) -> Value:
        """`value` everywhere."""
        return self.graph.add("full", (), dtype, shape, value=_jsonable(value))

    def literal(self, values: Sequence[Number], dtype: str, shape: Sequence[int]) -> Value:
        """These elements."""
        return self.graph.add("literal", (), dtype, shape, values=tuple(map(_jsonable, values)))

    def arange(self, start: Number, step: Number, count: int, dtype: str) -> Value:
        """start, start + step, ..."""
        return self.graph.add("arange", (), dtype, (count,), start=start, step=step)

    # Views.

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The elements in row-major order."""
        node = self.graph.nodes[x.id]
        if node.primitive == "reshape":
            x = self.graph.value(node.arguments[0])
        if x.shape == tuple(shape):
            return x
        if node.primitive == "cast":
            # FSDP2 casts parameters that it has made flat.
            flat = self.graph.nodes[node.arguments[0]]
            if flat.primitive == "reshape":
                inner = self.graph.value(flat.arguments[0])
                if inner.shape == tuple(shape):
                    return self.cast(inner, x.dtype)
        return self.graph.add("reshape", (x,), x.dtype, shape)

    def permute(self, x: Value, dims: Sequence[int]) -> Value:
        """Dimension i of the result is dimension dims[i] of x."""
        node = self.graph.nodes[x.id]
        if node.primitive == "permute":
            inner = attribute(node, "dims")
            dims = [inner[dim] for dim in dims]
            x = self.graph.value(node.arguments[0])
        if list(dims) == list(range(len(dims))):
            return x
        shape = [x.shape[dim] for dim in dims]
        return self.graph.add("permute", (x,), x.dtype, shape, dims=tuple(dims))

    def transpose(self, x: Value, one: int = -2, other: int = -1) -> Value:
        """x with two dimensions exchanged."""
        dims = list(range(len(x.shape)))
        dims[one], dims[other] = dims[other], dims[one]
        return self.permute(x, dims)

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """x broadcast."""
        if x.shape == tuple(shape):
            return x
        node = self.graph.nodes[x.id]
        if node.primitive == "full":
            return self.graph.add("full", (), x.dtype, shape, value=attribute(node, "value"))
        return self.graph.add("expand", (x,), x.dtype, shape)

    def slice(self, x: Value, dim: int, start: int, stop: int, step: int = 1) -> Value:
        """x[start:stop:step] along `dim`."""
        size = x.shape[dim]
        if (start, stop, step) == (0, size, 1):
            return x
        where = {"dim": dim, "start": start, "stop": stop, "step": step}
        node = self.graph.nodes[x.id]
        while node.primitive == "replace" and attribute(node, "dim") == dim:
            replaced, written = self.graph.arguments(x.id)
            if dict(node.attributes) == where:
                return written
            apart = start >= attribute(node, "stop") or stop <= attribute(node, "start")
            if not apart:
                break
            x = replaced
            node = self.graph.nodes[x.id]
        part = self._part_of_concat(x, dim, start, stop) if step == 1 else None
        if part is not None:
            return part
        shape = list(x.shape)
        shape[dim] = -(-(stop - start) // step) if stop > start else 0
        return self.graph.add("slice", (x,), x.dtype, shape, **where)

    def _part_of_concat(self, x: Value, dim: int, start: int, stop: int) -> Value | None:
        """The value that lies at [start:stop] of a concatenation, also of one that was cast; None
        if no single value does."""
        node = self.graph.nodes[x.id]
        if node.primitive == "cast":
            part = self._part_of_concat(self.graph.value(node.arguments[0]), dim, start, stop)
            return None if part is None else self.cast(part, x.dtype)
        if node.primitive != "concat" or attribute(node, "dim") != dim:
            return None
        begin = 0
        for value in self.graph.arguments(x.id):
            size = value.shape[dim]
            if size < 0 or begin > start:
                return None
            if (begin, begin + size) == (start, stop):
                return value
            begin += size
        return None

    def replace(self, x: Value, y: Value, dim: int, start: int, stop: int, step: int = 1) -> Value:
        """x with y at x[start:stop:step] along `dim`."""
        if (start, stop, step) == (0, x.shape[dim], 1):
            return y
        where = {"dim": dim, "start": start, "stop": stop, "step": step}
        return self._written_in_parts(x, y, dim, start, stop, step) or self.graph.add(
            "replace", (x, y), x.dtype, x.shape, **where
        )

    def _written_in_parts(
        self, x: Value, y: Value, dim: int, start: int, stop: int, step: int
    ) -> Value | None:
        """The concatenation of the parts of a tensor that was made empty, if with the part from
        `start` to `stop` all of them along one dimension have been written; else None."""
        parts = {start: (stop, y)} if step == 1 else {}
        node = self.graph.nodes[x.id]
        while node.primitive == "replace" and attribute(node, "dim") == dim:
            if attribute(node, "step") != 1:
                return None
            x, written = self.graph.arguments(x.id)
            # A part that was written later takes precedence.
            parts.setdefault(attribute(node, "start"), (attribute(node, "stop"), written))
            node = self.graph.nodes[x.id]
        if not is_empty(node):
            return None
        ordered, at = [], 0
        while at < x.shape[dim]:
            if at not in parts:
                return None
            at, part = parts.pop(at)
            ordered.append(part)
        return None if parts or not ordered else self.concat(ordered, dim)

    def place(
        self, x: Value, shape: Sequence[int], dim: int, start: int, stop: int, step: int = 1
    ) -> Value:
        """Zeros of `shape` with x at [start:stop:step] along `dim`."""
        if x.shape == tuple(shape):
            return x
        where = {"dim": dim, "start": start, "stop": stop, "step": step}
        return self.graph.add("place", (x,), x.dtype, shape, **where)

    def windows(self, x: Value, dim: int, size: int, step: int = 1, spacing: int = 1) -> Value:
        """Windows of `size` elements along `dim`, `spacing` apart, `step` further each; their
        elements in a new last dimension."""
        shape = list(x.shape)
        shape[dim] = (shape[dim] - (size - 1) * spacing - 1) // step + 1
        where = {"dim": dim, "size": size, "step": step, "spacing": spacing}
        return self.graph.add("windows", (x,), x.dtype, (*shape, size), **where)

    def strided(self, x: Value, shape: Sequence[int], strides: Sequence[int], first: int) -> Value:
        """Elements of x, counted in row-major order, from `first` on by `strides`; an element may
        be there more than once."""
        index = self.full(first, "int64", (1,) * len(shape))
        for dim, (size, stride) in enumerate(zip(shape, strides)):
            along = self.reshape(
                self.arange(0, stride, size, "int64"),
                [size if other == dim else 1 for other in range(len(shape))],
            )
            index = self.binary("add", index, along)
        count = math.prod(shape)
        flat, places = self.reshape(x, (math.prod(x.shape),)), self.reshape(index, (count,))
        taken = self.graph.add("gather", (flat, places), x.dtype, (count,), dim=0)
        return self.reshape(taken, shape)

    def concat(self, values: Sequence[Value], dim: int) -> Value:
        """All values one after the other along `dim`."""
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        sizes = [value.shape[dim] for value in values]
        shape[dim] = -1 if -1 in sizes else sum(sizes)
        return self.graph.add("concat", values, values[0].dtype, shape, dim=dim)

    def cast(self, x: Value, dtype: str) -> Value:
        """x in another dtype."""
        if x.dtype == dtype:
            return x
        node = self.graph.nodes[x.id]
        if node.primitive == "cast":
            inner = self.graph.value(node.arguments[0])
            if inner.dtype == dtype and _holds(x.dtype, dtype):
                return inner
        if node.primitive == "full" and not dtype.startswith("float8"):
            value = attribute(node, "value")
            if dtype in FLOATS and not isinstance(value, (bool, str)):
                return self.full(float(value), dtype, x.shape)
        primitive = "quantize" if dtype.startswith("float8") else "cast"
        return self.graph.add(primitive, (x,), dtype, x.shape)

    # Arithmetic.

    def unary(self, primitive: str, x: Value, dtype: str | None = None, **attributes: Any) -> Value:
        """An element-wise primitive of x."""
        attributes = {name: _jsonable(value) for name, value in attributes.items()}
        return self.graph.add(primitive, (x,), dtype or x.dtype, x.shape, **attributes)

    def binary(
        self, primitive: str, x: Value | Number, y: Value | Number, dtype: str | None = None
    ) -> Value:
        """An element-wise primitive of x and y, of which one may be a number."""
        kind = next((v.dtype for v in (x, y) if isinstance(v, Value)), None)
        if kind is None:
            raise Inexpressible("no tensor")
        one, two = self.of(x, dtype or kind), self.of(y, dtype or kind)
        shape = broadcast(one.shape, two.shape)
        return self.graph.add(primitive, (one, two), dtype or kind, shape)

    def of(self, x: Value | Number, dtype: str) -> Value:
        """x as a value: a number becomes a constant without dimensions, a term or factor."""
        if isinstance(x, Value):
            return x
        if isinstance(x, float) and dtype not in FLOATS:
            dtype = "float64"
        return self.full(factor_in(x, dtype), dtype)

    def limit(self, x: Value | Number, dtype: str) -> Value:
        """x as a value: a number is rounded to the type, as when a tensor of it is filled or
        compared with a number."""
        return x if isinstance(x, Value) else self.of(limit_in(x, dtype), dtype)

    def compared(self, primitive: str, x: Value, y: Value | Number) -> Value:
        """A comparison of x with y."""
        return self.binary(primitive, x, self.limit(y, x.dtype), "bool")

    def reduce(
        self,
        primitive: str,
        x: Value,
        dims: Iterable[int] | int | None,
        keep: bool = False,
        dtype: str | None = None,
        **attributes: Any,
    ) -> Value:
        """A reduction over `dims`, all for None or none."""
        chosen = _dims(dims, len(x.shape))
        shape = [
            1 if dim in chosen else size
            for dim, size in enumerate(x.shape)
            if keep or dim not in chosen
        ]
        return self.graph.add(
            primitive, (x,), dtype or x.dtype, shape, dims=chosen, keep=bool(keep), **attributes
        )

    def matmul(
        self, x: Value, y: Value, dtype: str | None = None, factors: str | None = "matmul"
    ) -> Value:
        """x · y over the last two dimensions. `factors`: which setting of a device says whether it
        rounds x and y first, "matmul" or "convolution"; None: it never does."""
        shape = [*broadcast(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]]
        named = {} if factors is None else {"factors": factors}
        return self.graph.add("matmul", (x, y), dtype or x.dtype, shape, **named)

    def with_optional(
        self,
        primitive: str,
        given: Sequence[tuple[str, Value | None]],
        dtype: str,
        shape: Sequence[int],
        /,
        **attributes: Any,
    ) -> Value:
        """A primitive of which some arguments may be absent.

        given: the arguments' names on the schema's page, and their values.
        """
        there = [(name, value) for name, value in given if value is not None]
        if len(there) < len(given):
            attributes["arguments"] = tuple(name for name, _ in there)
        return self.graph.add(primitive, [v for _, v in there], dtype, shape, **attributes)

    def is_constant(self, x: Value, value: float) -> bool:
        """Whether x is a constant of that value."""
        node = self.graph.nodes[x.id]
        return node.primitive == "full" and attribute(node, "value") == value


def broadcast(one: Sequence[int], two: Sequence[int]) -> tuple[int, ...]:
    """The shape to which two shapes broadcast."""
    length = max(len(one), len(two))
    one = (1,) * (length - len(one)) + tuple(one)
    two = (1,) * (length - len(two)) + tuple(two)
    return tuple(b if a == 1 else a for a, b in zip(one, two))


def _dims(dims: Iterable[int] | int | None, ndim: int) -> tuple[int, ...]:
    if dims is None:
        return tuple(range(ndim))
    listed = [dims] if isinstance(dims, int) else list(dims)
    if not listed:
        return tuple(range(ndim))
    return tuple(sorted(dim % ndim for dim in listed)) if ndim else ()


def _holds(wide: str, narrow: str) -> bool:
    """Whether every number of the type `narrow` is one of the type `wide`."""
    return FLOATS.get(wide, 0) >= 23 and narrow in FLOATS and FLOATS[narrow] < FLOATS[wide]


def _jsonable(value: Number) -> Any:
    """A number as an attribute: JSON has no infinity, and 1 and True are one key."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
