"""Matches layouts against a model's names: the placements of every module and parameter.

All checks run before the first step, so a misspelt pattern or axis is an error of `trace()` and not
a wrong trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ttrace_torch.base import names as naming
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.layouts import Layout, ModuleLayout, ParameterLayout, Rule
from ttrace_torch.layout.megatron_attributes import layout_of
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Only, OnMesh, Placements, Skip, TensorPlacements

# The axis along which ranks have other modules, the stages of a pipeline.
_STAGES = "pp"


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
    Throws TraceError for an unknown mesh, for an axis that it lacks, and for a pattern that matches
    nothing. A stage of a pipeline has few of the modules that the patterns name; whether one is
    spelt right, a run without stages tells, as the reference.
    """
    known = known or Assignment({}, {})
    stages = meshes.default.axes.get(_STAGES, 1)
    found = Assignment(
        {name: known.modules.get(name) or ModuleLayout() for name in model.modules},
        {name: ParameterLayout() for name in model.parameters},
    )
    for given in layouts:
        layout = given.mapped(meshes.known)
        for placements in layout.all_placements():
            meshes.of(placements, f'Layout("{layout.pattern}")')
        matched = naming.matching(layout.pattern, model.modules)
        if not matched and stages == 1:
            raise TraceError(
                f'Layout("{layout.pattern}") matches no module; '
                + naming.nearest(layout.pattern, model.modules)
            )
        for name in matched:
            _apply(layout, found.modules[name])
        for field_name in ("params", "param_grads", "main_grads"):
            _apply_to_parameters(layout, field_name, set(matched), model, found, stages)
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
    module.buffers = {**module.buffers, **layout.buffers}


def place_ends(assignment: Assignment, mesh: Mesh) -> None:
    """Says that the first stage of a pipeline has the whole model's input and the last one its
    output: what one stage hands to the next is no value of the whole model's.

    A layout that says something else of the axis of the stages stays as it is.
    """
    root, stages = assignment.modules.get(naming.ROOT), mesh.axes.get(_STAGES, 1)
    if root is not None and stages > 1:
        root.input = _at_end(root.input, 0)
        root.output = _at_end(root.output, stages - 1)


def skip_gradients_cut_over(assignment: Assignment, axes: Collection[str]) -> list[str]:
    """Leaves out the raw gradients of parameters that a layout cuts over axes along which each rank
    has samples of its own: they are of no one micro-batch. Returns the parameters' names.

    A layout that says `param_grads` knows better.
    """
    found = []
    for name, layout in assignment.parameters.items():
        cut = [axis for axis, one in (layout.param or {}).items() if one.cuts and axis in axes]
        if cut and layout.param_grad is None:
            layout.param_grad = Skip(
                f"the parameter is cut over {cut[0]}, along which each rank has samples of its "
                "own, so its raw gradient is of no one micro-batch"
            )
            found.append(name)
    return found


def _at_end(given: TensorPlacements | Rule, stage: int) -> TensorPlacements | Rule:
    def placed(one: Placements | None) -> Placements:
        if isinstance(one, (OnMesh, Skip)):
            return one
        return {_STAGES: Only(stage), **(one or {})}

    if callable(given):
        return lambda index, tensor: placed(given(index, tensor))
    if isinstance(given, Mapping):
        return placed(given)
    # The list may be shorter than the values are many.
    return lambda index, _: placed(given[index] if index < len(given) else None)


def _apply_to_parameters(
    layout: Layout,
    field_name: str,
    matched: set[str],
    model: naming.ModelNames,
    found: Assignment,
    stages: int,
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
        if not hits and stages == 1:
            raise TraceError(
                f'Layout("{layout.pattern}"): {field_name} "{pattern}" matches no parameter of '
                f"{len(matched)} module(s); "
                + naming.nearest(pattern, sorted({local for _, local in local_names}))
            )
        for name in hits:
            attribute = {"params": "param", "param_grads": "param_grad", "main_grads": "main_grad"}
            setattr(found.parameters[name], attribute[field_name], placements)
