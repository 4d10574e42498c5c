"""Bags of embeddings, as recommenders use them: sums, means or maxima of rows of a table."""

from __future__ import annotations

from typing import Any

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.scattering import scattered
from ttrace_torch.specification.operations.table import Call, operation

_SUM, _MEAN, _MAX = 0, 1, 2


class _Bags:
    """Which rows of a table lie in which bag.

    bag: [n], the number of the bag of each index.
    counted: [n] bool, whether the index is not the padding; None where there is no padding.
    """

    def __init__(
        self, call: Call, bags: int, indices: Value, offsets: Value, mode: int, padding: int
    ) -> None:
        """offsets: where each of the bags begins in `indices`; an end behind the last one may
        follow."""
        if -1 in indices.shape + offsets.shape:
            raise Inexpressible("bags of a size that depends on data")
        make = call.make
        (self.count,) = indices.shape
        self.call, self.bags, self.mode = call, bags, mode
        offsets = make.slice(offsets, 0, 0, bags)
        # A bag begins at each offset; an empty bag begins where the next one does.
        begins = self._add_rows(
            make.full(0, "int64", (self.count + 1,)), offsets, make.full(1, "int64", offsets.shape)
        )
        begun = make.slice(make.unary("cumsum", begins, dim=0), 0, 0, self.count)
        self.bag = make.binary("subtract", begun, 1, "int64")
        self.counted = None if padding < 0 else make.binary("not_equal", indices, padding, "bool")

    def rows_of(self, table: Value, rows: Value) -> Value:
        """table[rows]: [n, width]."""
        shape = (*rows.shape, *table.shape[1:])
        return self.call.make.graph.add("index_rows", (table, rows), table.dtype, shape, dim=0)

    def only_counted(self, rows: Value) -> Value:
        """[n, width] or [n] with zeros in the place of what is padding."""
        if self.counted is None:
            return rows
        return self._other_than_counted(rows, 0.0)

    def _other_than_counted(self, rows: Value, value: float) -> Value:
        """`rows` with `value` in the place of what is padding."""
        make = self.call.make
        assert self.counted is not None
        counted = make.reshape(self.counted, (self.count,) + (1,) * (len(rows.shape) - 1))
        other = make.full(value, rows.dtype, ())
        return make.graph.add("where", (counted, rows, other), rows.dtype, rows.shape)

    def weighted(self, rows: Value, weights: Value | None) -> Value:
        """[n, width], each row times its own weight."""
        if weights is None:
            return rows
        make = self.call.make
        return make.binary("multiply", rows, make.reshape(weights, (self.count, 1)), rows.dtype)

    def sums(self, rows: Value) -> Value:
        """[n, ...] added up in each bag: [bags, ...]."""
        zeros = self.call.make.full(0.0, rows.dtype, (self.bags, *rows.shape[1:]))
        return self._add_rows(zeros, self.bag, rows)

    def scaled(self, of_bags: Value) -> Value:
        """[bags, width] times what the mode makes of each bag's size."""
        if self.mode == _SUM:
            return of_bags
        make = self.call.make
        sizes = make.unary("clamp", self.sizes(of_bags.dtype), low=1.0)
        # Kernels multiply by the inverse.
        inverse = make.binary("divide", 1.0, make.reshape(sizes, (self.bags, 1)), of_bags.dtype)
        return make.binary("multiply", of_bags, inverse, of_bags.dtype)

    def sizes(self, dtype: str) -> Value:
        """[bags]: how many indices each bag has, without padding."""
        return self.sums(self.only_counted(self.call.make.full(1.0, dtype, (self.count,))))

    def largest(self, rows: Value) -> Value:
        """[n, width]: the largest of each bag, [bags, width]; 0 of an empty one."""
        zeros = self.call.make.full(0.0, rows.dtype, (self.bags, *rows.shape[1:]))
        counted = rows
        if self.counted is not None:
            counted = self._other_than_counted(rows, float("-inf"))
        found = self._put_together(zeros, counted, "amax")
        if self.counted is None:
            return found
        # A bag of padding alone is empty, too.
        return self._in_bags_with_rows(found)

    def with_largest(self, rows: Value, indices: Value) -> Value:
        """[n, width]: for each bag and column, the first index whose row is the largest there:
        [bags, width]; any of an empty bag."""
        make = self.call.make
        tops = self.rows_of(self.largest(rows), self.bag)
        is_largest = make.binary("equal", rows, tops, "bool")
        if self.counted is not None:
            counted = make.reshape(self.counted, (self.count, 1))
            is_largest = make.binary("logical_and", is_largest, counted, "bool")
        turns = make.reshape(make.arange(0, 1, self.count, "int64"), (self.count, 1))
        last = make.full(self.count - 1, "int64", ())
        turns = make.graph.add("where", (is_largest, turns, last), "int64", rows.shape)
        none = make.full(0, "int64", (self.bags, *rows.shape[1:]))
        first = self._put_together(none, turns, "amin")
        flat = make.reshape(first, (self.bags * rows.shape[1],))
        chosen = make.graph.add("index_rows", (indices, flat), "int64", flat.shape, dim=0)
        return make.reshape(chosen, first.shape)

    def _in_bags_with_rows(self, of_bags: Value) -> Value:
        make = self.call.make
        there = make.compared("greater", make.reshape(self.sizes("float32"), (self.bags, 1)), 0.0)
        zero = make.full(0.0, of_bags.dtype, ())
        return make.graph.add("where", (there, of_bags, zero), of_bags.dtype, of_bags.shape)

    def gradient_of_table(self, grad: Value, at: Value, count: int) -> Value:
        """grad: [bags, width], of the largest of each bag. at: [bags, width], their indices.
        Returns [count, width]."""
        make = self.call.make
        zeros = make.full(0.0, grad.dtype, (count, *grad.shape[1:]))
        arguments = (zeros, at, self._in_bags_with_rows(grad))
        return make.graph.add("scatter_add", arguments, grad.dtype, zeros.shape, dim=0)

    def _put_together(self, to: Value, rows: Value, reduce: str) -> Value:
        make = self.call.make
        at = make.expand(make.reshape(self.bag, (self.count, 1)), rows.shape)
        return scattered(self.call, to, 0, at, rows, reduce, False)

    def _add_rows(self, to: Value, at: Value, rows: Value) -> Value:
        return self.call.make.graph.add("add_rows", (to, at, rows), to.dtype, to.shape, dim=0)


@operation("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    call: Call,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> list[Value | None]:
    bags = _Bags(call, call.shape[0], indices, offsets, mode, padding_idx)
    rows = bags.weighted(bags.rows_of(weight, indices), per_sample_weights)
    if mode == _MAX:
        return [bags.largest(rows), None, None, bags.with_largest(rows, indices)]
    # The other results are numbers for the backward, which works them out anew.
    return [bags.scaled(bags.sums(bags.only_counted(rows))), None, None, None]


@operation("_embedding_bag_backward", "_embedding_bag_dense_backward")
def _embedding_bag_backward(
    call: Call,
    grad: Value,
    indices: Value,
    offsets: Value,
    maximum_indices: Value,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Value | None,
    padding_idx: int = -1,
    **_: Any,
) -> Value:
    if scale_grad_by_freq:
        raise Inexpressible("gradients scaled by frequency")
    bags = _Bags(call, grad.shape[0], indices, offsets, mode, padding_idx)
    if mode == _MAX:
        return bags.gradient_of_table(grad, maximum_indices, num_weights)
    rows = bags.weighted(bags.rows_of(bags.scaled(grad), bags.bag), per_sample_weights)
    facts = {"rows": num_weights, "padding": max(padding_idx, -1)}
    return call.make.graph.add("embedding_grad", (rows, indices), call.dtype, call.shape, **facts)


@operation("_embedding_bag_per_sample_weights_backward")
def _weights_backward(
    call: Call,
    grad: Value,
    weight: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    mode: int,
    padding_idx: int = -1,
) -> Value:
    bags = _Bags(call, grad.shape[0], indices, offsets, mode, padding_idx)
    rows, weights = bags.rows_of(grad, bags.bag), bags.rows_of(weight, indices)
    products = call.make.binary("multiply", rows, weights, call.dtype)
    return bags.only_counted(call.make.reduce("sum", products, (1,), False, call.dtype))
