"""A model's parameters and buffers filled with consistent values, each rank its own slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from ttrace_torch.assignment import assign
from ttrace_torch.consistent import check_determined, consistent_values
from ttrace_torch.dtensor import local_part, storage_of
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks import framework_of
from ttrace_torch.holding import Holding, held_part
from ttrace_torch.layout import Layout
from ttrace_torch.megatron_attributes import check_axis
from ttrace_torch.mesh import Mesh
from ttrace_torch.meshes import Meshes
from ttrace_torch.names import ROOT, ModelNames, check_name, matching, nearest
from ttrace_torch.placement import Placements
from ttrace_torch.placing import place
from ttrace_torch.ranks import current_rank
from ttrace_torch.shapes import check_local_shape
from ttrace_torch.streams import check_seed

# The last part of the name of what multiplies, in one dimension, and is about 1.
_FACTORS = ("weight", "gamma", "scale", "running_var")


def usual_mean(name: str, ndim: int) -> float:
    """1 for what scales by its nature: norms' weights, running variances. 0 for everything else.

    ndim: dimensions of the whole tensor.
    """
    last = name.rpartition(".")[2]
    return 1.0 if ndim <= 1 and last.endswith(_FACTORS) else 0.0


def consistent_init(
    model: Any,
    *,
    mesh: Mesh | None = None,
    layouts: Iterable[Layout] = (),
    seed: int = 0,
    std: float = 0.02,
    skip: Iterable[str] = (),
    rename: Callable[[str], str] | None = None,
    rank: int | None = None,
    meshes: Mapping[str, Mesh] | None = None,
    tp_axis: str = "tp",
    framework: str = "auto",
) -> None:
    """Fills every floating-point parameter and persistent buffer in place with its slice.

    Values are normal with the standard deviation `std` around 0, those of one-dimensional `weight`,
    `gamma`, `scale` and `running_var` around 1. They depend on `seed`, the canonical name and the
    place in the whole tensor alone. Tied parameters are filled once, under their first name.

    model, mesh, layouts, rank, meshes, tp_axis, framework: as for `trace`. DTensors (FSDP2 too) and
        Megatron's attributes tell how a parameter is cut, layouts the rest; what nothing tells of
        is taken to be whole.
    skip: globs over canonical names of parameters and buffers to leave as they are, such as masks
        and rotary frequencies in persistent buffers. Buffers that are not persistent are left: the
        model made them from its configuration.
    rename: from a canonical name in this rank's model to the one in the whole model, for pipeline
        stages that count their layers from 0, or whose head is tied to an embedding elsewhere.

    Call it on the complete model before the first step, and before optimizers copy the parameters.
    Nothing is communicated. Throws TraceError where a parameter's layout cannot be told.
    """
    check_seed(seed, "consistent_init")
    adapter = framework_of(model, framework)
    mesh, meshes = adapter.meshes(mesh, meshes)
    check_axis(tp_axis, mesh)
    grids = Meshes(mesh, meshes)
    rank = current_rank() if rank is None else rank
    mesh.coordinate(rank)
    names = ModelNames.of(model, adapter.naming())
    layouts = list(layouts)
    known = adapter.layouts(names, [layout.pattern for layout in layouts])
    assignment = assign(layouts, names, grids, tp_axis, known)
    tensors: dict[str, tuple[torch.Tensor, Placements]] = {
        name: (parameter, assignment.parameters[name].of("param"))
        for name, parameter in names.parameters.items()
    }
    tensors.update((name, (buffer, {})) for name, buffer in _persistent_buffers(names))
    left = _matched(skip, tensors)
    for name, (tensor, placements) in tensors.items():
        if name in left or not tensor.is_floating_point():
            continue
        there = name if rename is None else check_name(rename(name), "parameter")
        what = f"{name} on rank {rank}"
        holding = _holding(tensor, placements, grids, rank, what)
        if holding is not None:
            mean = usual_mean(there, len(holding.shape))
            _write(tensor, holding, consistent_values(there, holding, mean, std, seed), what)


def _persistent_buffers(names: ModelNames) -> Iterator[tuple[str, torch.Tensor]]:
    """Canonical name and tensor of each buffer that is saved with the model, once."""
    seen: set[int] = set()
    for module_name, module in names.modules.items():
        for local, buffer in module.named_buffers(recurse=False):
            if local not in module._non_persistent_buffers_set and id(buffer) not in seen:
                seen.add(id(buffer))
                name = local if module_name == ROOT else f"{module_name}.{local}"
                yield check_name(name, "buffer"), buffer


def _matched(patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    known, found = list(names), set()
    for pattern in patterns:
        hits = matching(pattern, known)
        if not hits:
            raise TraceError(
                f"skip: {pattern!r} matches no parameter or buffer; " + nearest(pattern, known)
            )
        found.update(hits)
    return found


def _holding(
    tensor: torch.Tensor, placements: Placements, meshes: Meshes, rank: int, what: str
) -> Holding | None:
    """What this rank holds of the tensor; None where it holds no part. Throws as `place`."""
    if type(tensor).__name__ == "FlatParameter" or hasattr(tensor, "_fqns"):
        raise TraceError(
            f"{what} is a flat parameter of FSDP1, whose layout it does not tell; call "
            "consistent_init() before wrapping the model, or use fully_shard"
        )
    if tensor.is_meta:
        raise TraceError(
            f"{what} is on the meta device; call model.to_empty(device=...) before consistent_init"
        )
    local = local_part(tensor, meshes.default, what)
    if local is None:
        return None
    placed = place(local, placements, "param", meshes, what)
    for axis, placement in placed.placements.items():
        check_determined(placement, f"{what}, axis {axis}")
    holding = held_part(placed.shape, placed.placements, placed.grid, rank, what)
    if holding is not None and holding.window is None:
        where = placed.grid.coordinate(rank)
        shape = local.value.shape
        check_local_shape(placed.shape, shape, placed.placements, placed.grid, where, what)
    return holding


def _write(tensor: torch.Tensor, holding: Holding, values: torch.Tensor, what: str) -> None:
    local = storage_of(tensor).detach()
    if holding.window is not None and local.numel() != values.numel():
        if tuple(local.shape) != holding.array_shape or not local.is_contiguous():
            raise TraceError(
                f"{what} has the shape {list(local.shape)}; a flat part is the range "
                f"{list(holding.window)}, or a contiguous tensor of {list(holding.array_shape)}"
            )
        local = local.view(-1)[slice(*holding.window)]
    with torch.no_grad():
        local.copy_(values.to(local.dtype).reshape(local.shape))
