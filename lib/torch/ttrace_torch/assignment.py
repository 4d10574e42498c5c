"""Which module and which parameter has which placements: layouts matched against a model's names.

Everything is checked here, before the first step, so that a misspelt pattern or axis is an error at
`trace()` and not a wrong trace afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ttrace_torch import names as naming
from ttrace_torch.errors import TraceError
from ttrace_torch.layout import (
    Layout,
    Mesh,
    Partial,
    Placement,
    Placements,
    Replicate,
    TensorPlacements,
)
from ttrace_torch.shapes import check_axes


@dataclass
class ModuleLayout:
    """Placements of one module's activations."""

    input: TensorPlacements = field(default_factory=dict)
    output: TensorPlacements = field(default_factory=dict)
    grad_output: TensorPlacements | None = None

    def of_input(self, index: int) -> Placements:
        """Placements of the module's `index`-th input tensor."""
        return _pick(self.input, index)

    def of_output(self, index: int) -> Placements:
        """Placements of the module's `index`-th output tensor."""
        return _pick(self.output, index)

    def of_grad_output(self, index: int) -> Placements:
        """Placements of the gradient of the module's `index`-th output tensor."""
        if self.grad_output is not None:
            return _pick(self.grad_output, index)
        # The gradient of a sum is the same for every part of it.
        return {
            axis: Replicate() if isinstance(placement, Partial) else placement
            for axis, placement in self.of_output(index).items()
        }


@dataclass
class ParameterLayout:
    """Placements of one parameter and its gradients."""

    param: Placements = field(default_factory=dict)
    param_grad: Placements | None = None
    main_grad: Placements | None = None

    def of(self, kind: str) -> Placements:
        """Placements of the parameter's tensor of that kind."""
        given = {"param_grad": self.param_grad, "main_grad": self.main_grad}.get(kind)
        return self.param if given is None else given


@dataclass
class Assignment:
    """Canonical name -> layout, for every module and every parameter of the model."""

    modules: dict[str, ModuleLayout]
    parameters: dict[str, ParameterLayout]


def assign(layouts: Iterable[Layout], model: naming.ModelNames, mesh: Mesh) -> Assignment:
    """The layouts matched against the model.

    Throws for a pattern that matches nothing and an axis that the mesh lacks.
    """
    found = Assignment(
        {name: ModuleLayout() for name in model.modules},
        {name: ParameterLayout() for name in model.parameters},
    )
    for layout in layouts:
        for placements in layout.all_placements():
            check_axes(placements, mesh, f'Layout("{layout.pattern}")')
        matched = naming.matching(layout.pattern, model.modules)
        if not matched:
            raise TraceError(
                f'Layout("{layout.pattern}") matches no module; '
                + naming.nearest(layout.pattern, model.modules)
            )
        for name in matched:
            _apply(layout, found.modules[name])
        for field_name in ("params", "param_grads", "main_grads"):
            _apply_to_parameters(layout, field_name, set(matched), model, found)
    return found


def _apply(layout: Layout, module: ModuleLayout) -> None:
    if layout.input is not None:
        module.input = layout.input
    if layout.output is not None:
        module.output = layout.output
    if layout.grad_output is not None:
        module.grad_output = layout.grad_output


def _apply_to_parameters(
    layout: Layout,
    field_name: str,
    matched: set[str],
    model: naming.ModelNames,
    found: Assignment,
) -> None:
    table: Mapping[str, Mapping[str, Placement]] = getattr(layout, field_name)
    for pattern, placements in table.items():
        local_names = {
            (owner, local): name
            for name, owners in model.owners.items()
            for owner, local in owners
            if owner in matched
        }
        hits = [
            name for (_, local), name in local_names.items() if naming.matching(pattern, [local])
        ]
        if not hits:
            raise TraceError(
                f'Layout("{layout.pattern}"): {field_name} "{pattern}" matches no parameter of '
                f"{len(matched)} module(s); "
                + naming.nearest(pattern, sorted({local for _, local in local_names}))
            )
        for name in hits:
            attribute = {"params": "param", "param_grads": "param_grad", "main_grads": "main_grad"}
            setattr(found.parameters[name], attribute[field_name], placements)


def _pick(placements: TensorPlacements, index: int) -> Placements:
    if isinstance(placements, Mapping):
        return placements
    return (placements[index] or {}) if index < len(placements) else {}
