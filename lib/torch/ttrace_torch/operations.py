"""Operations between modules, by the names of their nodes in the autograd graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ttrace_torch.overwriting import NODES

# As many as a report can show; a loss computed by hand may have hundreds.
MOST = 16
# Where gradients of leaves are collected, and what a plan puts into the graph.
_NO_OPERATIONS = frozenset({"AccumulateGrad", *NODES})


def add_operation(node: Any, operations: dict[str, None]) -> None:
    """Adds the operation of an autograd node, if it is one, and is not there yet."""
    name = str(node.name()).rpartition("::")[2]
    if len(operations) < MOST and name not in _NO_OPERATIONS:
        operations.setdefault(name)


def united(calls: Iterable[dict[str, None]]) -> list[str]:
    """The operations of several calls as one list."""
    return list(dict.fromkeys(name for call in calls for name in call))[:MOST]
