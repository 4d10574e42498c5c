"""PyTorch's own parallelism: DDP, FSDP2, DTensors and pipelines, in any combination."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import distributed, nn

from ttrace_torch.base.names import ROOT, ModelNames, Naming
from ttrace_torch.capture.selection import Selection
from ttrace_torch.capture.turns import Turns
from ttrace_torch.errors import TraceError, Unplaced
from ttrace_torch.frameworks import pipelining
from ttrace_torch.frameworks.data_parallel import merge_units, units_of
from ttrace_torch.frameworks.default_mesh import default_mesh, device_meshes, line_of
from ttrace_torch.frameworks.framework import Framework, Listener, StepWatch
from ttrace_torch.frameworks.local_tensors import (
    declare,
    forget,
    gradient_of,
    guess,
    placements_of,
)
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.dtensor import is_dtensor, lines_of, with_terms
from ttrace_torch.layout.layouts import ModuleLayout, ParameterLayout, Rule
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Only, Placement, Placements

_RAW = ("grad_output", "param_grad")


class Native(Framework):
    """A model that PyTorch itself makes parallel, or stages of one."""

    name = "pytorch"

    def __init__(self, model: Any) -> None:
        self._pipeline = pipelining.pipeline_of(model)
        self._parts = [model] if self._pipeline is None else self._pipeline.parts
        if not all(isinstance(part, nn.Module) for part in self._parts):
            raise TraceError(f"model: give a module, not {type(model).__name__}")
        self.counts_forwards = self._pipeline is None
        self._units = units_of(self._parts)
        self._data = merge_units(self._units)
        self._device_meshes = device_meshes(self._parts, self._units)
        data_axes = {axis for unit in self._units for axis, _ in unit.axes}
        self._tensor_axes = {
            axis
            for mesh in self._device_meshes
            for axis in mesh.mesh_dim_names or ()
            if axis not in data_axes and mesh.size(mesh.mesh_dim_names.index(axis)) > 1
        }
        self._stage_axis: str | None = None
        labels = [] if self._pipeline is None else [self._pipeline.label]
        labels += self._data.labels
        labels += ["tensor parallelism"] if self._tensor_axes else []
        self.label = " + ".join([f"PyTorch {torch.__version__.partition('+')[0]}", *labels])

    @staticmethod
    def made(model: Any) -> bool:
        """Whether `model` uses any of PyTorch's parallelism."""
        if pipelining.pipeline_of(model) is not None:
            return True
        if not isinstance(model, nn.Module):
            return False
        units = units_of([model])
        return bool(units or device_meshes([model], units))

    def naming(self) -> Naming:
        return Naming() if self._pipeline is None else self._pipeline.naming()

    def model_class(self, names: ModelNames) -> str:
        # FSDP2 puts a class of its own in front.
        bases = [base for base in type(self._parts[0]).__mro__ if not _of_fsdp(base)]
        return bases[0].__name__

    def meshes(
        self, mesh: Mesh | None, meshes: Mapping[str, Mesh] | None
    ) -> tuple[Mesh, Mapping[str, Mesh] | None]:
        stages = () if self._pipeline is None else self._pipeline.ranks
        if mesh is None:
            mesh = default_mesh(self._device_meshes, self._units, stages)
        if len(stages) > 1:
            lines = {axis: line_of(mesh, distributed.get_rank(), axis) for axis in mesh.axes}
            axes = [axis for axis, line in lines.items() if line == stages]
            if not axes:
                raise TraceError(
                    f"the pipeline's ranks {list(stages)} lie along no axis of {mesh}; give "
                    "trace(mesh=tt.Mesh({...})) an axis for them"
                )
            self._stage_axis = axes[0]
        return mesh, meshes

    def layouts(self, names: ModelNames, described: Sequence[str]) -> Assignment:
        modules = {}
        for name in names.modules:
            ends = self._ends() if name == ROOT else (None, None)
            modules[name] = ModuleLayout(self._rule(ends[0]), self._rule(ends[1]))
            if self._tensor_axes:
                modules[name].declare = self._declare
        whole = {
            name: GradientByGraph(parameter, self._tensor_axes)
            for name, parameter in names.parameters.items()
            if self._tensor_axes and not is_dtensor(parameter)
        }
        parameters: dict[str, ParameterLayout] = {
            name: of for name, of in whole.items() if not of.has_attributes
        }
        summed = frozenset(axis for unit in self._units for axis in unit.summed)
        if summed:
            for name, parameter in names.parameters.items():
                if is_dtensor(parameter):
                    parameters[name] = SummedGradient(summed)
        return Assignment(modules, parameters)

    def check(self, selection: Selection, optimizer: Any) -> None:
        raw = set(_RAW) & set(selection.kinds)
        if raw and self._data.divisor is None:
            raise TraceError(
                f"{', '.join(self._data.labels)} divide gradients by several numbers, or by a hook "
                "of the job's own, so how the raw ones compare is not known; give "
                f"trace(kinds=[...]) without {' and '.join(sorted(raw))}"
            )
        if raw and self._pipeline is not None and self._pipeline.divisor is None:
            raise TraceError(
                "the stages alone do not tell whether gradients are divided by the number of "
                "micro-batches; give trace() the schedule in their place"
            )

    def scales(self) -> dict[str, float]:
        # Read for every step, since a job may change the factors.
        self._data = merge_units(units_of(self._parts))
        of_stages = 1.0 if self._pipeline is None else self._pipeline.divisor
        if self._data.divisor is None or of_stages is None:
            return {}
        return dict.fromkeys(_RAW, 1.0 / (self._data.divisor * of_stages))

    def data_ranks(self) -> tuple[int, ...] | None:
        return self._data.ranks or None

    def shares_batch(self, inputs: Sequence[torch.Tensor], ranks: Collection[int]) -> bool:
        known = set(ranks)
        return any(
            placement.is_shard() and len(line) > 1 and set(line) <= known
            for tensor in inputs
            if is_dtensor(tensor)
            for placement, line in lines_of(tensor)
        )

    def watch_step(self, tracer: Listener, turns: Turns) -> AbstractContextManager[StepWatch]:
        forget()
        if self._pipeline is None:
            return super().watch_step(tracer, turns)
        ranks = self._data.ranks
        return self._pipeline.watching(tracer, turns, lambda x: self.shares_batch(x, ranks))

    def _ends(self) -> tuple[Placements | None, Placements | None]:
        """Placements of the whole model's input, on the first stage, and output, on the last."""
        if self._pipeline is None or self._stage_axis is None:
            return None, None
        first, last = self._pipeline.ends
        return {self._stage_axis: Only(first)}, {self._stage_axis: Only(last)}

    def _declare(self, tensor: torch.Tensor, placements: Placements) -> None:
        """Takes the user's layout of a tensor as known for all tensors computed from it."""
        declare(tensor, {a: one for a, one in placements.items() if a in self._tensor_axes})

    def _rule(self, further: Placements | None) -> Rule:
        def rule(index: int, tensor: torch.Tensor) -> Placements:
            found: dict[str, Placement] = dict(further or {})
            if not self._tensor_axes:
                return found
            own = placements_of(tensor)
            if own is None:
                raise Unplaced(
                    f"how a local tensor {list(tensor.shape)} lies over "
                    f"{', '.join(sorted(self._tensor_axes))} cannot be told from the graph; a "
                    "Layout for the module says it, {} for what is replicated",
                    guess(tensor, sorted(self._tensor_axes)),
                )
            return {**found, **own}

        return rule


class GradientByGraph(ParameterLayout):
    """A whole parameter of a tensor-parallel model: the graph tells the placements of its raw
    gradient."""

    def __init__(self, parameter: nn.Parameter, axes: set[str]) -> None:
        super().__init__()
        self._parameter = parameter
        self._axes = axes
        # Megatron's attributes say more.
        self.has_attributes = hasattr(parameter, "tensor_model_parallel")

    def of(self, kind: str) -> Placements:
        return gradient_of(self._parameter, self._axes) if kind == "param_grad" else {}


class SummedGradient(ParameterLayout):
    """A parameter of FSDP2 on a mesh with all axes. FSDP2 sums the raw gradients over the data's
    axes, also where their placements say that they are replicated."""

    def __init__(self, axes: frozenset[str]) -> None:
        super().__init__()
        self._axes = axes

    def shown(self, gradient: torch.Tensor) -> torch.Tensor:
        return with_terms(gradient, self._axes) if is_dtensor(gradient) else gradient


def _of_fsdp(base: type) -> bool:
    return base.__module__.startswith("torch.distributed.") or base.__name__.startswith("FSDP")
