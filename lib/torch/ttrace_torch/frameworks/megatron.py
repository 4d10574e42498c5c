"""Megatron-core: its models, process groups, schedules and optimizers describe the run.

Nothing of Megatron is imported; its modules are looked up in `sys.modules`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from ttrace_torch.base.names import ModelNames, Naming
from ttrace_torch.capture.selection import Selection
from ttrace_torch.capture.turns import Turns
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks import megatron_mesh
from ttrace_torch.frameworks.framework import Framework, Listener, StepWatch
from ttrace_torch.frameworks.megatron_layouts import module_layouts
from ttrace_torch.frameworks.megatron_names import MegatronNaming, inner, parts_of
from ttrace_torch.frameworks.megatron_optimizer import MegatronOptimizerWatch
from ttrace_torch.frameworks.megatron_parameters import parameter_layouts
from ttrace_torch.frameworks.megatron_schedule import ScheduleWatch
from ttrace_torch.frameworks.pipelining import pipeline_of
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.mesh import Mesh


class Megatron(Framework):
    """A Megatron-core model: one module, or the list of its chunks."""

    name = "megatron"
    # The schedules and engines do.
    counts_forwards = False
    numbers_microbatches = True

    def __init__(self, model: Any) -> None:
        if not self.made(model):
            raise TraceError(
                f'framework="megatron": {type(model).__name__} has no module of megatron.core; '
                'give the model or the list of its chunks, or framework="none"'
            )
        self._parts = parts_of(model)
        self._state = megatron_mesh.parallel_state()
        self._config = inner(self._parts[0]).config
        self._sizes = megatron_mesh.sizes(self._state)
        version = getattr(sys.modules["megatron.core"], "__version__", "")
        self.label = f"Megatron-core {version}".strip()
        self._check_wrapping()

    @staticmethod
    def made(model: Any) -> bool:
        """Whether `model` is, contains, or is a list of modules of Megatron-core."""
        if pipeline_of(model) is not None:
            return False
        return any(
            any(base.__module__.startswith("megatron.core.") for base in type(module).__mro__)
            for part in parts_of(model)
            for module in part.modules()
        )

    def naming(self) -> Naming:
        return MegatronNaming(self._state)

    def model_class(self, names: ModelNames) -> str:
        return type(inner(self._parts[0])).__name__

    def meshes(
        self, mesh: Mesh | None, meshes: Mapping[str, Mesh] | None
    ) -> tuple[Mesh, Mapping[str, Mesh]]:
        if mesh is not None:
            raise TraceError(
                "mesh=...: Megatron's process groups tell the mesh; leave it out, or say "
                'framework="none" and describe everything by layouts'
            )
        own = megatron_mesh.meshes(self._state, self._config)
        return own[""], {**{name: grid for name, grid in own.items() if name}, **(meshes or {})}

    def layouts(self, names: ModelNames, described: Sequence[str]) -> Assignment:
        modules = module_layouts(names, self._config, self._sizes, described)
        return Assignment(modules, parameter_layouts(names, self._parts, self._sizes, self._state))

    def check(self, selection: Selection, optimizer: Any) -> None:
        for name in ("hidden_dropout", "attention_dropout"):
            if getattr(self._config, name, 0.0) > 0.0:
                raise TraceError(
                    f"{name} is {getattr(self._config, name)}: every layout draws masks of its "
                    "own, so no other run repeats this one; set hidden_dropout and "
                    "attention_dropout to 0 for traced runs, the reference's too"
                )
        fused = getattr(self._config, "gradient_accumulation_fusion", False)
        if fused and "param_grad" in selection.kinds:
            raise TraceError(
                "gradient_accumulation_fusion adds weight gradients up where no hook sees them; "
                'switch it off for traced runs, or give kinds=[...] without "param_grad"'
            )
        overlapped = any(
            getattr(_ddp_config(part), "overlap_param_gather", False) for part in self._parts
        )
        if overlapped and {"param", "param_after_step"} & set(selection.kinds):
            raise TraceError(
                "overlap_param_gather leaves parameters stale until the next forward; switch it "
                'off for traced runs, or give kinds=[...] without "param" and "param_after_step"'
            )

    def scales(self) -> dict[str, float]:
        loss_scale = self._loss_scale()
        # Each rank's loss is the mean over its own micro-batches and its own share of the sequence.
        # The reduction of gradients divides by the number of ranks.
        replicas = self._sizes["dp"] * self._sizes["cp"]
        shared = 1 if getattr(self._config, "calculate_per_token_loss", False) else replicas
        raw = 1.0 / (shared * loss_scale)
        return {"grad_output": raw, "param_grad": raw, "main_grad": 1.0 / loss_scale}

    def watch_optimizer(self, optimizer: Any, tracer: Listener) -> Any:
        if not hasattr(optimizer, "step_with_ready_grads"):
            return super().watch_optimizer(optimizer, tracer)
        return MegatronOptimizerWatch(optimizer, tracer)

    def watch_step(self, tracer: Listener, turns: Turns) -> AbstractContextManager[StepWatch]:
        return ScheduleWatch(tracer, self._parts, self._state).watching()

    def _loss_scale(self) -> float:
        scale_of = getattr(self._config, "grad_scale_func", None)
        if scale_of is None:
            return 1.0
        return float(scale_of(torch.ones(1)))

    def _check_wrapping(self) -> None:
        replicas = self._sizes["dp"] * self._sizes["cp"]
        for part in self._parts:
            if replicas > 1 and _ddp_config(part) is None:
                raise TraceError(
                    f"{type(part).__name__} on {replicas} data- or context-parallel ranks is not "
                    "wrapped in Megatron's DistributedDataParallel, so how gradients are averaged "
                    'is not known; wrap it, or say framework="none" and describe everything'
                )


def _ddp_config(part: nn.Module) -> Any:
    return getattr(part, "ddp_config", None)
