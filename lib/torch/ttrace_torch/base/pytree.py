"""The tensors inside the nested values that a module takes and returns, in order."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors of nested tuples, lists, mappings and dataclasses, depth first.

    Mappings are visited in insertion order, dataclasses in field order. Other objects are leaves.
    """
    return [tensor for _, tensor in paths_in(value)]


def paths_in(value: Any) -> list[tuple[list[str], torch.Tensor]]:
    """The same tensors, each with its path: keys, fields, and positions in tuples and lists."""
    if isinstance(value, torch.Tensor):
        return [([], value)]
    return [
        ([key, *path], tensor)
        for key, child in _children(value)
        for path, tensor in paths_in(child)
    ]


def _children(value: Any) -> list[tuple[str, Any]]:
    # Mappings first: transformers' ModelOutput is also a dataclass, but its mapping has only the
    # fields that are set.
    if isinstance(value, Mapping):
        # The text of an object used as a key may differ between runs; its position does not.
        return [
            (str(key) if isinstance(key, (str, int, float)) else str(turn), child)
            for turn, (key, child) in enumerate(value.items())
        ]
    if isinstance(value, (tuple, list)):
        return [(str(turn), child) for turn, child in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [(name, getattr(value, name, None)) for name in names]
    return []


def replace_tensor(value: Any, index: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """`value` with its `index`-th tensor replaced by `change(tensor)`. Containers on the path are
    copied."""
    replaced, _ = _replace(value, index, change)
    return replaced


def _replace(value: Any, index: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return (change(value) if index == 0 else value), index - 1
    if isinstance(value, Mapping):
        keys = list(value)
    elif isinstance(value, (tuple, list)):
        keys = list(range(len(value)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        keys = [field.name for field in dataclasses.fields(value)]
    else:
        return value, index
    changed = {}
    for key, (_, child) in zip(keys, _children(value)):
        if index >= 0:
            new, index = _replace(child, index, change)
            if new is not child:
                changed[key] = new
    return (_with(value, changed) if changed else value), index


def _with(value: Any, changed: dict[Any, Any]) -> Any:
    if isinstance(value, tuple):
        items = [changed.get(i, item) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    duplicate: Any = copy.copy(value)
    for key, new in changed.items():
        if isinstance(value, (Mapping, list)):
            duplicate[key] = new
        else:
            object.__setattr__(duplicate, key, new)
    return duplicate
