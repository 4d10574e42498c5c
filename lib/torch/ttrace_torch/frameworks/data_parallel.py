"""Data parallelism of DistributedDataParallel and FSDP2: its ranks, and its divisor of gradients.

All attributes read here are those that their own reductions use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import distributed, nn

from ttrace_torch.errors import TraceError

_AVERAGING_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks."


@dataclass(frozen=True)
class Unit:
    """A module whose gradients are averaged.

    label: name of the wrapper.
    ranks: the ranks that average; a hybrid's in the order of its mesh, shards fastest.
    axes: (name, ranks of the line through this rank) for each axis.
    divisor: divisor of the sum over the ranks; None if unknown.
    device_mesh: device mesh of FSDP; None for DDP.
    summed: the axes of a mesh with other ones, too, over which FSDP sums gradients.
    """

    label: str
    ranks: tuple[int, ...]
    axes: tuple[tuple[str, tuple[int, ...]], ...]
    divisor: float | None
    device_mesh: Any = None
    summed: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataParallel:
    """All units of a model together; without units, one rank has all the data.

    labels: distinct labels of the units.
    ranks: the data-parallel ranks.
    divisor: divisor of the sum of their gradients; None if units differ, or one is unknown.
    """

    labels: tuple[str, ...]
    ranks: tuple[int, ...]
    divisor: float | None


def units_of(parts: Sequence[nn.Module]) -> list[Unit]:
    """The units in a model's parts, outermost first. Throws TraceError for FSDP1."""
    return [unit for part in parts for module in part.modules() for unit in _units(module)]


def merge_units(units: Iterable[Unit]) -> DataParallel:
    """Merges the units of a model. Throws TraceError if they do not share out one batch.

    Some units may average over fewer ranks than others, as experts do.
    """
    known = list(units)
    widest = max(known, key=lambda unit: len(unit.ranks), default=None)
    if widest is None:
        return DataParallel((), (), 1.0)
    for unit in known:
        if not set(unit.ranks) <= set(widest.ranks):
            raise TraceError(
                f"{unit.label} over the ranks {list(unit.ranks)} beside {widest.label} over "
                f"{list(widest.ranks)}: which of them share out the data is not clear; say "
                'framework="none" and give mesh=..., and global numbers to microbatch()'
            )
    divisors = {unit.divisor for unit in known}
    labels = tuple(dict.fromkeys(unit.label for unit in known))
    return DataParallel(labels, widest.ranks, divisors.pop() if len(divisors) == 1 else None)


def _units(module: nn.Module) -> Iterator[Unit]:
    bases = {base.__module__ + "." + base.__name__ for base in type(module).__mro__}
    if "torch.nn.parallel.distributed.DistributedDataParallel" in bases:
        ranks = _ranks(getattr(module, "process_group", None))
        yield Unit("DDP", ranks, (("dp", ranks),), _ddp_divisor(module, len(ranks)))
    elif any(name.endswith(".FullyShardedDataParallel") for name in bases):
        raise TraceError(
            "FullyShardedDataParallel (FSDP1): its flat parameters are not described; use "
            "fully_shard(), or trace the model without it"
        )
    elif any(name.endswith(".FSDPModule") and name.startswith("torch.") for name in bases):
        state: Any = module._get_fsdp_state()  # type: ignore[operator]
        groups = getattr(state, "_fsdp_param_groups", None)
        for group in [state._fsdp_param_group] if groups is None else groups:
            if group is not None:
                yield _sharded(group)


def _sharded(group: Any) -> Unit:
    """The unit of a group of FSDP2's parameters."""
    info = group.mesh_info
    device_mesh = info.mesh
    ranks = tuple(device_mesh.mesh.flatten().tolist())
    names = device_mesh.mesh_dim_names or (
        ("dp",) if device_mesh.ndim == 1 else ("dp_replicate", "dp_shard")
    )
    lines = [
        tuple(distributed.get_process_group_ranks(device_mesh.get_group(dim)))
        for dim in range(device_mesh.ndim)
    ]
    factor = getattr(group, "gradient_divide_factor", None)
    if getattr(group, "_all_reduce_hook", None) is not None:
        divisor = None
    else:
        divisor = float(factor) if factor is not None else float(len(ranks))
    replicated = getattr(info, "shard_mesh_dim", 0) is None
    label = "replicate" if replicated else "FSDP2" if device_mesh.ndim == 1 else "HSDP"
    dims = getattr(info, "dp_mesh_dims", None)
    summed = () if dims is None else (*dims.shard_names, *dims.replicate_names)
    return Unit(label, ranks, tuple(zip(names, lines)), divisor, device_mesh, summed)


def _ddp_divisor(module: Any, count: int) -> float | None:
    """The number of ranks if the reduction computes the mean; None for a hook of the job's own."""
    for hook, _ in getattr(module, "_comm_hooks", []):
        if not getattr(hook, "__module__", "").startswith(_AVERAGING_HOOKS):
            return None
    return float(count)


def _ranks(group: Any) -> tuple[int, ...]:
    if "torch.distributed" not in sys.modules or not distributed.is_initialized():
        return ()
    return tuple(distributed.get_process_group_ranks(group or distributed.group.WORLD))
