"""Arguments and results of operations, which may be nested lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.specification.graph import Value


def asked(results: Sequence[Any], mask: Any) -> list[torch.Tensor]:
    """The results of a decomposition that the caller asked for: some make all of them."""
    if isinstance(mask, (list, tuple)) and len(mask) == len(results):
        results = [x for x, wanted in zip(results, mask) if wanted]
    return [x for x in results if isinstance(x, torch.Tensor)]


def listed(out: Any) -> Sequence[Any]:
    """What nested lists and dictionaries hold, in order."""
    if isinstance(out, dict):
        out = list(out.values())
    if isinstance(out, (list, tuple)):
        return [x for item in out for x in listed(item)]
    return [out]


def local(argument: Any) -> Any:
    """An argument with the local tensors of DTensors in their places."""
    if isinstance(argument, torch.Tensor):
        return storage_of(argument)
    if isinstance(argument, (list, tuple)):
        return [local(x) for x in argument]
    return argument


def values_in(values: Mapping[str, Any]) -> list[Value]:
    """The values among arguments, in order."""
    found: list[Value] = []

    def collect(value: Any) -> None:
        if isinstance(value, Value):
            found.append(value)
        elif isinstance(value, list):
            for one in value:
                collect(one)

    for value in values.values():
        collect(value)
    return found


def number_of(argument: Any) -> Any:
    """A symbolic number as the number that it has; itself where that is not known."""
    node = argument.node
    hint = node.maybe_as_int() if isinstance(argument, torch.SymInt) else None
    return argument if hint is None else hint
