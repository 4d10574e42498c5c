"""Collectives of torch.distributed in a run of one process: copies, or nothing at all.

Their schemas do not say which tensors they write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

# Collectives that change nothing if one process is the whole group.
_KEEPING = frozenset(
    {
        "allreduce_",
        "allreduce_coalesced_",
        "barrier",
        "broadcast_",
        "check_for_nan",
        "monitored_barrier_",
        "reduce_",
        "send",
    }
)
# Collectives that copy their second argument into the first.
_COPYING = frozenset(
    {
        "_allgather_base_",
        "_reduce_scatter_base_",
        "allgather_",
        "allgather_coalesced_",
        "allgather_into_tensor_coalesced_",
        "alltoall_",
        "alltoall_base_",
        "gather_",
        "reduce_scatter_",
        "reduce_scatter_tensor_coalesced_",
        "scatter_",
    }
)


class Effect(NamedTuple):
    """What a collective does to tensors.

    copies: (target, source) for each tensor that is overwritten.
    unknown: the tensors whose content is not known afterwards.
    """

    copies: list[tuple[torch.Tensor, torch.Tensor]]
    unknown: list[torch.Tensor]


def effect_of(name: str, given: Mapping[str, Any]) -> Effect:
    """The effect of the operation c10d::`name` on the arguments `given`."""
    arguments = [tensors_in(argument) for argument in given.values()]
    every = [tensor for tensors in arguments for tensor in tensors]
    if _multiplies(given.get("reduce_op")):
        return Effect([], every)
    if name in _KEEPING:
        return Effect([], [])
    targets, sources = arguments[0], arguments[1] if len(arguments) > 1 else []
    if name not in _COPYING or len(targets) != len(sources):
        return Effect([], every)
    if any(one.numel() != other.numel() for one, other in zip(targets, sources)):
        return Effect([], every)
    return Effect(list(zip(targets, sources)), [])


def _multiplies(reduction: Any) -> bool:
    """Whether a reduction changes its argument even on one rank."""
    if reduction is None:
        return False
    from torch.distributed import ReduceOp

    try:
        operation: Any = ReduceOp.unbox(reduction)  # type: ignore[attr-defined]
        return bool(operation == ReduceOp.PREMUL_SUM)
    except (AttributeError, RuntimeError, TypeError):
        return False


def tensors_in(argument: Any) -> list[torch.Tensor]:
    """The tensors in nested lists and dictionaries, in order."""
    if isinstance(argument, torch.Tensor):
        return [argument]
    if isinstance(argument, dict):
        argument = list(argument.values())
    if isinstance(argument, (list, tuple)):
        return [tensor for item in argument for tensor in tensors_in(item)]
    return []
