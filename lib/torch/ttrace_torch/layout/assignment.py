"""Matches layouts against a model's names: the placements of every module and parameter.

All checks run before the first step, so a misspelt pattern or axis is an error of `trace()` and not
a wrong trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ttrace_torch.base import names as naming
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.layouts import Layout, ModuleLayout, ParameterLayout
from ttrace_torch.layout.megatron_attributes import layout_of
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Placements


@dataclass
class Assignment:
    """Canonical name -> layout, for every module and every parameter of the model."""

    modules: dict[str, ModuleLayout]
    parameters: dict[str, ParameterLayout]


def assign(
    layouts: Iterable[Layout],
    model: naming.ModelNames,
    meshes: Meshes,
    tp_axis: str,
    known: Assignment | None = None,
) -> Assignment:
    """Matches `layouts` against `model`. Megatron's attributes give the parameters that no layout
    does.

    known: layouts that a framework gives for its modules and parameters; `layouts` override them.
    Throws TraceError for a pattern that matches nothing, an unknown mesh and an axis that it lacks.
    """
    known = known or Assignment({}, {})
    found = Assignment(
        {name: known.modules.get(name) or ModuleLayout() for name in model.modules},
        {name: ParameterLayout() for name in model.parameters},
    )
    for given in layouts:
        layout = given.mapped(meshes.known)
        for placements in layout.all_placements():
            meshes.of(placements, f'Layout("{layout.pattern}")')
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
    for name, parameter in model.parameters.items():
        if found.parameters[name].param is None:
            own = known.parameters.get(name)
            found.parameters[name].fallback = own or layout_of(parameter, name, meshes, tp_axis)
    return found


def _apply(layout: Layout, module: ModuleLayout) -> None:
    if layout.input is not None:
        module.input = layout.input
    if layout.output is not None:
        module.output = layout.output
    if layout.grad_output is not None:
        module.grad_output = layout.grad_output
    if layout.input_batch is not None:
        module.input_batch = layout.input_batch
    if layout.output_batch is not None:
        module.output_batch = layout.output_batch


def _apply_to_parameters(
    layout: Layout,
    field_name: str,
    matched: set[str],
    model: naming.ModelNames,
    found: Assignment,
) -> None:
    table: Mapping[str, Placements] = getattr(layout, field_name)
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
