"""Masters: the wider copies that an optimizer updates in the place of a model's parameters.

Megatron names them (`parameter.main_param`), and so may a job of its own. Where nobody does, they
are found: an optimizer whose groups hold tensors that are no parameters holds copies of those that
it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ttrace_torch.base.names import ModelNames


def updated_tensors(names: ModelNames) -> dict[int, str]:
    """id of each tensor that is known to be a parameter or its master -> canonical name."""
    by_id: dict[int, str] = {}
    for name, parameter in names.parameters.items():
        by_id[id(parameter)] = name
        by_id[id(getattr(parameter, "main_param", parameter))] = name
    return by_id


def masters_of(optimizer: Any, names: ModelNames) -> dict[str, torch.Tensor]:
    """Canonical name -> master, of those that an optimizer holds and nobody names.

    All of them in the order of the parameters that it lacks, if there are as many of equal shapes,
    or each group of them in that order, if shapes tell the groups apart, as with decay for matrices
    alone; else each that is equal, rounded, to one parameter alone. Only wider types are copies.
    """
    known = updated_tensors(names)
    groups = getattr(optimizer, "param_groups", [])
    held = [one for group in groups for one in group["params"] if isinstance(one, torch.Tensor)]
    others = [one for one in held if id(one) not in known]
    if not others:
        return {}
    taken = {known[id(one)] for one in held if id(one) in known}
    free = {n: p for n, p in names.parameters.items() if p.requires_grad and n not in taken}
    if len(others) == len(free) and all(map(_may_copy, others, free.values())):
        return dict(zip(free, others, strict=True))
    by_group = [[one for one in group["params"] if id(one) not in known] for group in groups]
    if len(others) == len(free) and (in_turn := _in_turn(by_group, free)):
        return in_turn
    found: dict[str, list[torch.Tensor]] = {}
    for one in others:
        equal = _equal(one, free)
        if len(equal) == 1:
            found.setdefault(equal[0], []).append(one)
    return {name: ones[0] for name, ones in found.items() if len(ones) == 1}


def _in_turn(
    groups: Sequence[Sequence[Any]], parameters: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The parameters in their order, each with the next one of the only group that may have it;
    empty where several may, or none."""
    left = [list(reversed(group)) for group in groups]
    found: dict[str, torch.Tensor] = {}
    for name, parameter in parameters.items():
        fitting = [group for group in left if group and _may_copy(group[-1], parameter)]
        if len(fitting) != 1:
            return {}
        found[name] = fitting[0].pop()
    return found


def _may_copy(wide: torch.Tensor, parameter: torch.Tensor) -> bool:
    if wide.shape != parameter.shape or not wide.is_floating_point():
        return False
    return parameter.is_floating_point() and parameter.element_size() < wide.element_size()


def is_copy(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the other tensor, converted to the type of the first, is that one. They may lie on
    different devices, as where an optimizer is offloaded; what cannot be compared is no copy."""
    if one.shape != other.shape or one.is_sparse or other.is_sparse:
        return False
    try:
        with torch.no_grad():
            return torch.equal(one, other.to(device=one.device, dtype=one.dtype))
    except (NotImplementedError, RuntimeError):  # no storage, or another class of tensor
        return False


def _equal(wide: torch.Tensor, parameters: Mapping[str, torch.Tensor]) -> list[str]:
    return [name for name, p in parameters.items() if _may_copy(wide, p) and is_copy(p, wide)]
