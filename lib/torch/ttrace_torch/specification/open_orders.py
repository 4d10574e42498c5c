"""Choices whose order a kernel leaves open: `topk(sorted=False)`.

The run had some order, which a trace knows only where it recorded the indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttrace_torch.specification.graph import SAME_ELEMENTS, Graph, Node, attribute
from ttrace_torch.specification.marks import Mark, Place

# The reason why a tensor that depends on such an order cannot be judged.
OPEN_ORDER = "the order of topk(sorted=False)"
_MOVES = SAME_ELEMENTS | {"slice"}
_REDUCTIONS = frozenset({"sum", "mean", "product", "max", "min", "any", "all", "logsumexp"})


def is_open(node: Node) -> bool:
    """Whether a node is a choice of no order."""
    return node.primitive == "top_indices" and attribute(node, "sorted") is False


def choices_first(graph: Graph, marks: Mapping[Place, Mark]) -> list[tuple[Place, Mark]]:
    """The marks in their order, but among the values of one module's call the choices of no order
    first: others follow from them."""
    found: list[tuple[Place, Mark]] = []
    at: dict[tuple[Any, ...], int] = {}
    for place, mark in marks.items():
        kind, name, *rest = place
        module = (kind, name.split("[")[0], *rest)
        start = at.setdefault(module, len(found))
        if kind in ("input", "output") and is_open(graph.nodes[_moved(graph, mark.value.id)]):
            found.insert(start, (place, mark))
            for other, turn in at.items():
                at[other] = turn + (turn >= start and other != module)
        else:
            found.append((place, mark))
    return found


def depends_on_open_order(graph: Graph, order: Sequence[int], root: int) -> bool:
    """Whether the value of `root`, computed by the nodes `order`, depends on an order that is left
    open. The chosen indices themselves do not: a reader knows that they have none."""
    opened = {number for number in order if is_open(graph.nodes[number])}
    if not opened or _moved(graph, root) in opened:
        return False
    # The values that have the order of a choice -> the dimension of that order.
    along = {number: int(attribute(graph.nodes[number], "dim")) for number in opened}
    for number in order:
        node = graph.nodes[number]
        carried = [along[one] for one in node.arguments if one in along]
        if not carried:
            continue
        dim = carried[0]
        if node.primitive == "scatter_add" and node.arguments[1] in along:
            if node.arguments[2] in along or not _is_uniform(graph, node.arguments[2]):
                return True
        elif node.primitive in _REDUCTIONS and dim in (attribute(node, "dims") or ()):
            continue
        elif node.primitive == "cast" or (
            node.primitive == "gather" and attribute(node, "dim") == dim
        ):
            along[number] = dim
        else:
            return True
    return root in along


def _moved(graph: Graph, number: int) -> int:
    """The value whose elements this one shows, reshaped, moved or cut."""
    while graph.nodes[number].primitive in _MOVES:
        number = graph.nodes[number].arguments[0]
    return number


def _is_uniform(graph: Graph, number: int) -> bool:
    return graph.nodes[_moved(graph, number)].primitive == "full"
