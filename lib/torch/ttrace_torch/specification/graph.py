"""The operations of a step as a graph of primitives (schemas/specification-v1.md).

Equal operations on equal values are one value, so that what a checkpointed segment computes a
second time is the value of the first time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

LEAF = "(leaf)"
OPAQUE = "(opaque)"
# The operation of an opaque value that the collector could not follow.
MISTAKE = "a mistake of the collector"

Attributes = tuple[tuple[str, Any], ...]


class Value(NamedTuple):
    """A value of the graph: its number, the name of its dtype, and its shape.

    A size that depends on data is -1.
    """

    id: int
    dtype: str
    shape: tuple[int, ...]


class Node(NamedTuple):
    """What computes a value.

    primitive: of the specification, or LEAF for what the step did not compute, or OPAQUE for an
        operation that no primitive expresses; its attribute `operation` then names it.
    """

    primitive: str
    arguments: tuple[int, ...]
    attributes: Attributes
    dtype: str
    shape: tuple[int, ...]


class Graph:
    """All values of a step."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        # Leaf of one element from outside -> a tensor that holds its number.
        self.numbers: dict[int, Any] = {}
        self._known: dict[Node, int] = {}

    def add(
        self,
        primitive: str,
        arguments: Sequence[Value],
        dtype: str,
        shape: Sequence[int],
        /,
        **attributes: Any,
    ) -> Value:
        """The value of a primitive. Lists among the attributes are given as tuples."""
        node = Node(
            primitive,
            tuple(argument.id for argument in arguments),
            tuple(attributes.items()),
            dtype,
            tuple(shape),
        )
        number = self._known.get(node)
        if number is None:
            number = self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return Value(number, dtype, node.shape)

    def leaf(self, dtype: str, shape: Sequence[int]) -> Value:
        """A new value that the step did not compute."""
        return self._unique(LEAF, (), dtype, shape)

    def opaque(
        self, operation: str, arguments: Sequence[Value], dtype: str, shape: Sequence[int]
    ) -> Value:
        """A new value that an operation made which no primitive expresses."""
        return self._unique(OPAQUE, arguments, dtype, shape, operation=operation)

    def value(self, number: int) -> Value:
        """The value with that number."""
        node = self.nodes[number]
        return Value(number, node.dtype, node.shape)

    def arguments(self, number: int) -> list[Value]:
        """The arguments of a value's node."""
        return [self.value(argument) for argument in self.nodes[number].arguments]

    def _unique(
        self,
        primitive: str,
        arguments: Sequence[Value],
        dtype: str,
        shape: Sequence[int],
        **attributes: Any,
    ) -> Value:
        numbers = tuple(argument.id for argument in arguments)
        self.nodes.append(Node(primitive, numbers, tuple(attributes.items()), dtype, tuple(shape)))
        return Value(len(self.nodes) - 1, dtype, tuple(shape))


def attribute(node: Node, name: str) -> Any:
    """An attribute of a node; None if it has none of that name."""
    return next((value for key, value in node.attributes if key == name), None)


def is_from_outside(node: Node) -> bool:
    """Whether nothing in the step computed the value: it was given, or drawn at random."""
    if node.primitive == OPAQUE and not node.arguments:
        return bool(attribute(node, "operation") != MISTAKE)
    return node.primitive == LEAF


def is_empty(node: Node) -> bool:
    """Whether a node is memory that nobody has written to."""
    operation = str(attribute(node, "operation")) if node.primitive == OPAQUE else ""
    return operation.rpartition(".")[2] in _EMPTY


_EMPTY = frozenset({"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided"})

# Operations whose result has the elements of their argument.
SAME_ELEMENTS = frozenset({"cast", "reshape", "permute", "expand", "quantize"})


def is_number(graph: Graph, number: int) -> bool:
    """Whether a value has one element."""
    return all(size == 1 for size in graph.nodes[number].shape)


def depends_on_leaves(graph: Graph, number: int) -> bool:
    """Whether a value is computed from a leaf, or from something opaque."""
    seen: set[int] = set()
    stack = [number]
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        node = graph.nodes[one]
        if node.primitive in (LEAF, OPAQUE):
            return True
        stack.extend(node.arguments)
    return False


def constant_number(graph: Graph, number: int) -> float | None:
    """The number of a value of one element, if it follows from constants and from numbers that the
    step found; None if it depends on data."""
    node = graph.nodes[number]
    if not is_number(graph, number):
        return None
    if number in graph.numbers:
        return float(graph.numbers[number])
    if node.primitive in ("full", "literal"):
        value = attribute(node, "value")
        if value is None:
            value = attribute(node, "values")[0]
        return None if isinstance(value, str) else float(value)
    arguments = [constant_number(graph, argument) for argument in node.arguments]
    if any(argument is None for argument in arguments):
        return None
    known = [argument for argument in arguments if argument is not None]
    if node.primitive in SAME_ELEMENTS or node.primitive in ("sum", "mean"):
        return known[0]
    if node.primitive == "reciprocal":
        return 1 / known[0] if known[0] else None
    if node.primitive not in _ARITHMETIC or (node.primitive == "divide" and not known[1]):
        return None
    return float(_ARITHMETIC[node.primitive](*known))


_ARITHMETIC: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
}
