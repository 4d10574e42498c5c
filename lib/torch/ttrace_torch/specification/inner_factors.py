"""Replaces the numbers that one micro-batch's graph has as the inner factor of a loss: the factor
that a script multiplied the loss by before it was recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import SAME_ELEMENTS, Graph, Value

# Operations that change only the sign of a sum of terms, or how it is stored.
_KEEPING = SAME_ELEMENTS | {"negate"}


class Scaled(NamedTuple):
    """A value of one element, as `factor` times `base`."""

    base: Value
    factor: Value


def scaled(make: Expressions, value: Value, operations: Sequence[tuple[str, int]]) -> Scaled | None:
    """`value` without the numbers that it was multiplied or divided by last; None if the graph has
    other operations than `operations`.

    operations: as in `InnerFactor`.
    """
    graph = make.graph
    factor, number = make.full(1.0, "float64"), value.id
    for primitive, turn in operations:
        number = _stored(graph, number)
        node = graph.nodes[number]
        if node.primitive != primitive:
            return None
        by = make.reshape(graph.value(node.arguments[turn]), ())
        factor = graph.add(primitive, (factor, by), "float64", ())
        number = node.arguments[1 - turn]
    return Scaled(graph.value(number), factor)


def _stored(graph: Graph, number: int) -> int:
    """The value whose elements this one only stores in another way."""
    while graph.nodes[number].primitive in SAME_ELEMENTS:
        number = graph.nodes[number].arguments[0]
    return number


def multiplied(make: Expressions, base: Value, factor: Value, like: Value) -> Value:
    """base · factor, of the dtype and shape of `like`."""
    product = make.graph.add("multiply", (base, factor), like.dtype, base.shape)
    return make.reshape(product, like.shape)


def terms_of(graph: Graph, value: Value) -> int:
    """The number of terms, such as tokens, whose sum a value of one element is; 0 if it is no sum.

    The divisor of a sum is a count of the data, and not of micro-batches.
    """
    stack = [value.id]
    while stack:
        node = graph.nodes[stack.pop()]
        if node.primitive in _KEEPING or node.primitive in ("add", "subtract"):
            stack.extend(node.arguments)
        elif node.primitive == "sum" or ("reduction", "sum") in node.attributes:
            # Log-probabilities have a dimension more than their targets.
            return min(math.prod(graph.nodes[one].shape) for one in node.arguments[:2])
    return 0
