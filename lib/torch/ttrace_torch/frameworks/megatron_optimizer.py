"""Megatron's optimizers: their steps, their settings, and each rank's range of the elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from torch import nn

from ttrace_torch.base.names import ModelNames
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.framework import Listener
from ttrace_torch.frameworks.megatron_api import DataParallel, InnerOptimizer, Optimizer
from ttrace_torch.optimizer.masters import updated_tensors
from ttrace_torch.optimizer.state import StateTensor, state_tensors
from ttrace_torch.optimizer.watch import entries_of, held_in

Range = tuple[int, int]


class MegatronOptimizerWatch:
    """Follows a `MegatronOptimizer`, chained ones included, by wrapping its `step`."""

    def __init__(self, optimizer: Optimizer, tracer: Listener) -> None:
        self._optimizer = optimizer
        self._count = 0
        self._before = vars(optimizer).get("step")
        step = optimizer.step

        def traced_step(*args: Any, **kwargs: Any) -> Any:
            # Clipping works in place, so main gradients are recorded before.
            tracer.before_update()
            done = step(*args, **kwargs)
            updated, norm = done[0], done[1]
            if norm is not None:
                limit = optimizer.config.clip_grad
                tracer.grad_norm(norm, clip_norm=limit if limit > 0 else None)
            if updated:
                self._count += 1
                tracer.after_update()
            return done

        optimizer.step = traced_step

    def remove(self) -> None:
        """Restores the optimizer's own `step`."""
        if self._before is None:
            vars(self._optimizer).pop("step", None)
        else:
            self._optimizer.step = self._before

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's entries for the coming optimizer step."""
        found = []
        for one, known in self._known(names):
            found.extend(entries_of(one.optimizer, step, known, self._count))
        # A rank that owns no part of a group has no entry for it.
        return [entry for entry in found if entry["params"]]

    def states(self, names: ModelNames) -> Iterator[StateTensor]:
        """The state at the beginning of the coming step, of main parameters and their shards as
        well."""
        for one, known in self._known(names):
            yield from state_tensors(one.optimizer, known, names.parameters)

    def held(self, names: ModelNames) -> set[str] | None:
        """The parameters of which the groups hold the tensor, a wider copy, or this rank's shard,
        and those that were dealt out to other ranks.

        None for a distributed optimizer that holds some: other ranks hold the others.
        """
        known = [(one, held_in(one.optimizer, by_id)) for one, by_id in self._known(names)]
        if all(held is None for _, held in known):
            return None
        found = set().union(*(held for _, held in known if held is not None))
        dealt = {id(parameter) for parameter in _dealt_out(self._optimizer)}
        found |= {name for name, parameter in names.parameters.items() if id(parameter) in dealt}
        return None if found and any(_shards(one) for one, _ in known) else found

    def _known(self, names: ModelNames) -> Iterator[tuple[InnerOptimizer, dict[int, str]]]:
        """Each optimizer with a torch optimizer inside, and id of its updated tensors ->
        canonical name."""
        by_id = updated_tensors(names)
        for one in _torch_optimizers(self._optimizer):
            known = dict(by_id)
            for model_groups, shard_groups in _shards(one):
                for models, shards in zip(model_groups, shard_groups):
                    for model, shard in zip(models, shards):
                        if id(model) in by_id:
                            known[id(shard)] = by_id[id(model)]
            yield one, known


def _torch_optimizers(optimizer: Any) -> list[InnerOptimizer]:
    """The optimizers that have a torch optimizer inside."""
    chained = getattr(optimizer, "chained_optimizers", None)
    found = [optimizer] if chained is None else [o for c in chained for o in _torch_optimizers(c)]
    return [one for one in found if getattr(one, "optimizer", None) is not None]


def _dealt_out(optimizer: Any) -> Iterator[nn.Parameter]:
    """The parameters that a layer-wise optimizer deals out whole, to whichever rank."""
    for dealt in ("dp_cp_params_list", "expt_dp_params_list"):
        for of_rank in getattr(optimizer, dealt, None) or ():
            yield from of_rank
    for one in getattr(optimizer, "chained_optimizers", None) or ():
        yield from _dealt_out(one)


def _shards(optimizer: Any) -> list[tuple[Any, Any]]:
    """A distributed optimizer's groups of parameters, and of the shards that it updates."""
    pairs = (
        ("model_fp32_groups", "shard_fp32_groups"),
        ("model_float16_groups", "shard_fp32_from_float16_groups"),
    )
    return [
        (getattr(optimizer, whole), getattr(optimizer, part))
        for whole, part in pairs
        if hasattr(optimizer, whole) and hasattr(optimizer, part)
    ]


def ranges_of(parts: Sequence[nn.Module]) -> dict[int, list[Range]]:
    """id of a parameter -> the elements (start, stop) that each data-parallel rank's optimizer
    owns.

    Empty without a distributed optimizer. The gradient buffers are cut evenly, bucket by bucket,
    regardless of the borders between parameters, so a rank's range may be empty.
    """
    found: dict[int, list[Range]] = {}
    for part in parts:
        settings = getattr(part, "ddp_config", None)
        if not getattr(settings, "use_distributed_optimizer", False):
            continue
        if getattr(settings, "num_distributed_optimizer_instances", 1) > 1:
            raise TraceError(
                "num_distributed_optimizer_instances: gradients that are cut within an instance "
                "and reduced between them are not described; set it to 1 for traced runs"
            )
        model = cast(DataParallel, part)
        for buffer in [*model.buffers, *model.expert_parallel_buffers]:
            for parameter, (start, stop, bucket_number) in buffer.param_index_map.items():
                bucket = buffer.buckets[bucket_number]
                world = buffer.data_parallel_world_size
                share = bucket.grad_data.numel() // world
                borders = [bucket.offset + share * number - start for number in range(world + 1)]
                inside = [min(max(border, 0), stop - start) for border in borders]
                found[id(parameter)] = list(zip(inside, inside[1:]))
    return found
