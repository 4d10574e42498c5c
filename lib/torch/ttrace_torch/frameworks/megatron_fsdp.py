"""megatron-fsdp: parameters, gradients and optimizer state are ranges of its flat buffers.

Nothing of it is imported, and nothing is communicated: the buffers say which range of a parameter
each rank holds. Its DTensors call these ranges `Shard(0)`, which they are not: a rank may hold five
rows of seven, or none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ttrace_torch.base.names import ROOT, ModelNames, Naming
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.framework import Framework, Listener, Watch
from ttrace_torch.frameworks.megatron_fsdp_api import Buffers
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.layout.layouts import ParameterLayout
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Flat, Placement
from ttrace_torch.optimizer.state import StateTensor
from ttrace_torch.optimizer.watch import OptimizerWatch

_MODULE = "megatron_fsdp.megatron_fsdp"


class MegatronFSDP(Framework):
    """The model that `megatron_fsdp.fully_shard` returns."""

    name = "megatron_fsdp"

    def __init__(self, model: Any) -> None:
        version = getattr(sys.modules["megatron_fsdp"], "__version__", "")
        self.label = f"megatron-fsdp {version}".strip()
        self._model_class = type(model.module).__name__
        self._naming = naming_of(model)
        self._summed = bool(getattr(model, "calculate_per_token_loss", False))
        buffers: Buffers = model.param_and_grad_buffer
        meshes = {one.device_mesh for one in buffers.dist_main_weight.values()}
        if len(meshes) != 1 or next(iter(meshes)).ndim != 1:
            raise TraceError(
                "megatron-fsdp with tensor parallelism, experts or an outer data-parallel axis is "
                'not described; say framework="none" and give mesh=... and layouts'
            )
        self._ranks = [int(rank) for rank in meshes.pop().mesh.flatten().tolist()]
        self._placements = dict(_placements(buffers, len(self._ranks)))

    @staticmethod
    def made(model: Any) -> bool:
        cls = getattr(sys.modules.get(_MODULE), "MegatronFSDP", None)
        return cls is not None and isinstance(model, cls)

    def naming(self) -> Naming:
        return self._naming

    def model_class(self, names: ModelNames) -> str:
        return self._model_class

    def meshes(
        self, mesh: Mesh | None, meshes: Mapping[str, Mesh] | None
    ) -> tuple[Mesh, Mapping[str, Mesh] | None]:
        return mesh or Mesh({"dp": len(self._ranks)}, self._ranks), meshes

    def layouts(self, names: ModelNames, described: Sequence[str]) -> Assignment:
        lies = {name: {"dp": one} for name, one in self._placements.items()}
        return Assignment({}, {name: ParameterLayout(of, {}, of) for name, of in lies.items()})

    def scales(self) -> dict[str, float]:
        # Where the loss is of all tokens, gradients are summed over the ranks and not averaged.
        share = 1.0 if self._summed else 1.0 / len(self._ranks)
        return dict.fromkeys(("grad_output", "param_grad"), share)

    def data_ranks(self) -> tuple[int, ...] | None:
        return tuple(self._ranks)

    def held(self, name: str, parameter: nn.Parameter, kind: str) -> torch.Tensor | None:
        local = storage_of(parameter).detach()
        # A rank that holds nothing of a trained parameter has no gradient, and still records an
        # empty shard.
        if kind != "main_grad" or (local.numel() == 0 and parameter.requires_grad):
            return local
        return None if parameter.grad is None else storage_of(parameter.grad)

    def watch_optimizer(self, optimizer: Any, tracer: Listener) -> Watch:
        events = tracer.before_update, tracer.after_update, tracer.evaluated_again
        return _Watch(self._placements, optimizer, *events)


class _Outermost(Naming):
    """The whole model is the wrapper, not the module in it, whose hooks never run."""

    def of_modules(self, part: nn.Module) -> dict[str, str | None]:
        return {**super().of_modules(part), "": ROOT, "module": None}


def naming_of(model: nn.Module) -> Naming:
    """The naming of a wrapped model.

    Micro-batches are counted by hooks of the whole model. Before 0.6 the wrapper calls the model's
    `forward` past its hooks, so there the wrapper is the whole.
    """
    code = getattr(type(model).forward, "__code__", None)
    past_hooks = code is not None and "forward" in code.co_names
    return _Outermost() if past_hooks else Naming()


class _Watch(OptimizerWatch):
    """An optimizer of its DTensors."""

    def __init__(self, placements: Mapping[str, Placement], *watched: Any) -> None:
        super().__init__(*watched)
        self._placements = placements

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        # It makes a step of its own before training, but not for parameters of which a rank holds
        # nothing: other ranks know how often these were updated.
        empty = {name for name, p in names.parameters.items() if not storage_of(p).numel()}
        entries = super().entries(step, names)
        for entry in entries:
            entry["params"] = [name for name in entry["params"] if name not in empty]
        return [entry for entry in entries if entry["params"]]

    def states(self, names: ModelNames) -> Iterator[StateTensor]:
        for state in super().states(names):
            value, placement = storage_of(state.value), self._placements.get(state.parameter)
            if placement is not None and state.like_gradient:
                yield state._replace(value=value, placements={"dp": placement})
            else:
                yield state._replace(value=value)


def _placements(buffers: Buffers, ranks: int) -> Iterator[tuple[str, Placement]]:
    """Name -> the ranges of a parameter on the ranks, of those that are sharded."""
    if buffers.bucketing_policy.data_parallel_sharding_strategy == "no_shard":
        return
    for group in buffers.parameter_groups:
        buffer = group.main_weight_buffer or group.model_weight_buffer
        share, begin = buffer.shard_bucket_index.size, buffer.bucket_index.global_data_index
        for item, parameter in enumerate(group.params):
            index = buffer.item_index_map[item]
            cuts = [
                min(max(begin + rank * share - index.global_data_index, 0), index.size)
                for rank in range(ranks + 1)
            ]
            name = buffers.param_to_name[parameter]
            yield name, Flat(list(zip(cuts, cuts[1:])), buffers.dist_main_weight[name].shape)
