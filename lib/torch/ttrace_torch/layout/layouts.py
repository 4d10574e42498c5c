"""Layouts: what the user gives for the modules of a model, and the placements that result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Callable

import torch

from ttrace_torch.base.microbatch import BatchRules, check_batch_rules
from ttrace_torch.base.names import matching
from ttrace_torch.layout.placements import (
    OnMesh,
    Partial,
    Placement,
    Placements,
    Replicate,
    Skip,
    TensorPlacements,
)


@dataclass(frozen=True)
class Layout:
    """The placements of the tensors of all modules that `pattern` matches.

    pattern: glob over canonical module names ("(model)" is the root; `*` matches dots too).
    input, output, grad_output: axis -> placement, or a list with one such dictionary (or None)
        per tensor. One dictionary holds for the first tensor that has the dimension that it cuts,
        and for the others that have this dimension with as many local elements; the tracer
        takes the rest for whole, and says so once. Tensors without a placement are replicated, and
        those with SKIP in its place are not recorded;
        `grad_output` defaults to the output's placement, its partial axes replicated.
    params, param_grads, main_grads: glob over the module's own parameter names -> axis ->
        placement. The two gradients default to `params`; a parameter after the step has the
        placement from before.
    buffers: glob over the module's own buffers -> axis -> placement; whole without it.
    input_batch, output_batch: for runs inside `tracer.microbatch([0, 1, ...])`, the dimension along
        which the micro-batches are concatenated, or "mean" or "sum" if the tensor is that of the
        micro-batches' tensors; or a list with one of these (or None) per tensor.

    The placements refer to the default mesh, or to another one: `OnMesh(name, placements)`. If
    several layouts match a module, later ones override earlier ones, field by field. A DTensor's
    own placements override this on the axes of its device mesh. A parameter's Megatron attributes
    count if no layout names the parameter.
    """

    pattern: str
    input: TensorPlacements | None = None
    output: TensorPlacements | None = None
    grad_output: TensorPlacements | None = None
    params: Mapping[str, Placements] = field(default_factory=dict)
    param_grads: Mapping[str, Placements] = field(default_factory=dict)
    main_grads: Mapping[str, Placements] = field(default_factory=dict)
    buffers: Mapping[str, Placements] = field(default_factory=dict)
    input_batch: BatchRules | None = None
    output_batch: BatchRules | None = None

    def __post_init__(self) -> None:
        for rules in (self.input_batch, self.output_batch):
            check_batch_rules(rules, f'Layout("{self.pattern}")')

    def mapped(self, change: Callable[[Placements], Placements]) -> Layout:
        """A copy with `change` applied to all placements."""

        def of_tensors(given: TensorPlacements | None) -> TensorPlacements | None:
            if given is None or isinstance(given, Mapping):
                return None if given is None else change(given)
            return [None if one is None else change(one) for one in given]

        def of_table(table: Mapping[str, Placements]) -> dict[str, Placements]:
            return {pattern: change(placements) for pattern, placements in table.items()}

        return replace(
            self,
            input=of_tensors(self.input),
            output=of_tensors(self.output),
            grad_output=of_tensors(self.grad_output),
            params=of_table(self.params),
            param_grads=of_table(self.param_grads),
            main_grads=of_table(self.main_grads),
            buffers=of_table(self.buffers),
        )

    def all_placements(self) -> list[Placements]:
        """Every axis -> placement mapping of this layout, for checks."""
        found: list[Placements] = []
        for given in (self.input, self.output, self.grad_output):
            if isinstance(given, Mapping):
                found.append(given)
            elif given is not None:
                found.extend(one for one in given if one is not None)
        for table in (self.params, self.param_grads, self.main_grads, self.buffers):
            found.extend(table.values())
        return found


# Placements of a module's n-th tensor, for layouts that depend on the tensor.
Rule = Callable[[int, torch.Tensor], Placements]


@dataclass
class ModuleLayout:
    """Placements of one module's activations, and the dimensions that micro-batches lie along.

    passed_over: called for each tensor that the one dictionary of `input` or `output` does not
        hold for: the side, the number of the tensor, and why.
    output_swap: two dimensions that are swapped in the whole model's output.
    declare: takes a tensor and the placements that the user's layout gives it.
    follows_parameters: whether to record the output gradient of an output that is a parameter, such
        as the bias that Megatron's layers hand on. Its hooks live from one micro-batch to the next,
        so what they see depends on the schedule.
    """

    input: TensorPlacements | Rule = field(default_factory=dict)
    output: TensorPlacements | Rule = field(default_factory=dict)
    grad_output: TensorPlacements | None = None
    input_batch: BatchRules | None = None
    output_batch: BatchRules | None = None
    output_swap: tuple[int, int] | None = None
    declare: Callable[[torch.Tensor, Placements], None] | None = None
    follows_parameters: bool = True
    passed_over: Callable[[str, int, str], None] | None = None
    buffers: Mapping[str, Placements] = field(default_factory=dict)
    # Side -> dimension -> the first tensor of a call that has it, and its local elements.
    _first: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def of_input(self, index: int, tensor: torch.Tensor) -> Placements:
        """Placements of the module's `index`-th input tensor."""
        return self._declared(self.input, index, tensor, "input")

    def of_data(self, tensor: torch.Tensor) -> dict[str, Placement]:
        """Placements of what stands beside the module's input, such as labels: those of the input's
        one dictionary whose dimension has as many local elements in both."""
        if not isinstance(self.input, Mapping):
            return {}
        found = {}
        for axis, placement in self.input.items():
            dim = placement.cut_dim
            if isinstance(dim, int) and -tensor.dim() <= dim < tensor.dim():
                _, elements = self._first.get("input", {}).get(dim, (0, None))
                if tensor.shape[dim] == elements:
                    found[axis] = placement
        return found

    def of_output(self, index: int, tensor: torch.Tensor) -> Placements:
        """Placements of the module's `index`-th output tensor."""
        return self._declared(self.output, index, tensor, "output")

    def _declared(
        self, given: TensorPlacements | Rule, index: int, tensor: torch.Tensor, side: str
    ) -> Placements:
        placements = _pick(given, index, tensor)
        if isinstance(placements, Skip):
            return placements
        if isinstance(given, Mapping):
            placements = self._fitting(given, index, tensor, side)
        if self.declare is not None and not callable(given):
            self.declare(tensor, placements)
        return placements

    def _fitting(
        self, given: Placements, index: int, tensor: torch.Tensor, side: str
    ) -> Placements:
        """The placements of a module's one dictionary that hold for its `index`-th tensor."""
        firsts = self._first.setdefault(side, {})
        kept = {}
        for axis, placement in given.items():
            dim = placement.cut_dim
            if not isinstance(dim, int):
                kept[axis] = placement
                continue
            extent = tensor.shape[dim] if -tensor.dim() <= dim < tensor.dim() else None
            first, elements = firsts.get(dim, (index, extent))
            if extent is not None and (index <= first or elements is None):
                firsts[dim] = first, elements = index, extent
            if extent == elements:
                # If all tensors of the module lack the dimension, the recorder reports it.
                kept[axis] = placement
            elif self.passed_over is not None:
                has = f"has {extent} elements" if extent is not None else "has no elements"
                self.passed_over(side, index, f"{has} along dimension {dim}, and not {elements}")
        return OnMesh(given.mesh, kept) if isinstance(given, OnMesh) else kept

    def of_buffer(self, local: str) -> Placements:
        """Placements of the module's own buffer of that name; the last matching glob counts."""
        found: Placements = {}
        for pattern, placements in self.buffers.items():
            if matching(pattern, [local]):
                found = placements
        return found

    def swapped(self, output: torch.Tensor) -> torch.Tensor:
        """An output of the module, or its gradient, with dimensions in the order of the whole
        model."""
        return output if self.output_swap is None else output.transpose(*self.output_swap)

    def of_grad_output(self, index: int, tensor: torch.Tensor) -> Placements:
        """Placements of the gradient of the module's `index`-th output `tensor`."""
        if self.grad_output is not None:
            return _pick(self.grad_output, index, tensor)
        output = self.of_output(index, tensor)
        if isinstance(output, Skip):
            return output
        # The gradient of a sum is equal for every term.
        placements = {
            axis: Replicate() if isinstance(placement, Partial) else placement
            for axis, placement in output.items()
        }
        return OnMesh(output.mesh, placements) if isinstance(output, OnMesh) else placements


@dataclass
class ParameterLayout:
    """Placements of one parameter and its gradients.

    fallback: layout from the framework or the parameter's attributes, if no layout gives `param`.
    """

    param: Placements | None = None
    param_grad: Placements | None = None
    main_grad: Placements | None = None
    fallback: ParameterLayout | None = None

    def of(self, kind: str) -> Placements:
        """Placements of the parameter's tensor of that kind."""
        given = None
        if kind == "param_grad":
            given = self.param_grad
        elif kind == "main_grad":
            given = self.main_grad
        if given is None:
            given = self.param
        if given is None:
            return {} if self.fallback is None else self.fallback.of(kind)
        return given

    def shown(self, gradient: torch.Tensor) -> torch.Tensor:
        """The raw gradient to record."""
        return gradient if self.fallback is None else self.fallback.shown(gradient)


def _pick(placements: TensorPlacements | Rule, index: int, tensor: torch.Tensor) -> Placements:
    if callable(placements):
        return placements(index, tensor)
    if isinstance(placements, Mapping):
        return placements
    found = placements[index] if index < len(placements) else None
    return {} if found is None else found
