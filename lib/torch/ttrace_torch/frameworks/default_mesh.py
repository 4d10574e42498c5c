"""The default mesh of a run: from device meshes, else from process groups."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Any

from torch import distributed, nn

from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.data_parallel import Unit
from ttrace_torch.layout.dtensor import is_dtensor
from ttrace_torch.layout.mesh import Mesh

_WAY_OUT = "give trace(mesh=tt.Mesh({...})) the axes of the whole run"

Line = tuple[int, ...]


def device_meshes(parts: Iterable[nn.Module], units: Iterable[Unit]) -> list[Any]:
    """The device meshes of the parameters and of FSDP, without duplicates."""
    found = [unit.device_mesh for unit in units if unit.device_mesh is not None]
    for part in parts:
        tensors: list[Any] = list(part.parameters())
        found.extend(p.device_mesh for p in tensors if is_dtensor(p))
    first: dict[tuple[Any, ...], Any] = {}
    for mesh in found:
        # FSDP's own come first: torch may have taken those of its parameters from an equal slice of
        # another mesh.
        first.setdefault(_identity(mesh), mesh)
    return list(first.values())


def default_mesh(meshes: Iterable[Any], units: Iterable[Unit], stages: Line) -> Mesh:
    """The grid of all ranks of the job. Throws TraceError unless exactly one grid is possible.

    meshes: from `device_meshes`.
    stages: the ranks of the pipeline; empty without one.
    """
    world = distributed.get_world_size() if distributed.is_initialized() else 1
    if world == 1 and not meshes:
        return Mesh()
    named = {unit.device_mesh: tuple(axis for axis, _ in unit.axes) for unit in units}
    roots: list[Mesh] = []
    for mesh in meshes:
        root = _root(mesh)
        names = root.mesh_dim_names or named.get(root)
        if names is None:
            raise TraceError(
                f"parameters lie on a device mesh {list(root.mesh.shape)} without names; give "
                f"init_device_mesh(..., mesh_dim_names=...) them, or {_WAY_OUT}"
            )
        grid = Mesh(list(zip(names, root.mesh.shape)), root.mesh.flatten().tolist())
        if grid not in roots:
            roots.append(grid)
    whole = [grid for grid in roots if grid.size == world]
    if len(whole) == 1 and all(_within(grid, whole[0]) for grid in roots):
        return _with_stages(whole[0], stages)
    if len(whole) > 1 or len(roots) > 1:
        raise TraceError(f"parameters lie on several meshes, {roots}; {_WAY_OUT}")
    lines: dict[str, Line] = {}
    for grid in roots:
        lines.update({axis: line_of(grid, distributed.get_rank(), axis) for axis in grid.axes})
    if stages and stages not in lines.values():
        lines["pp"] = stages
    for unit in units:
        if unit.device_mesh is None and unit.ranks not in lines.values():
            lines["dp"] = unit.ranks
    return _from_lines(lines, world)


def _with_stages(grid: Mesh, stages: Line) -> Mesh:
    """`grid`; where it has all ranks on one axis, the stages get one. So torchtitan makes its
    meshes, all of them unflattened from one axis."""
    (name, *others), count = grid.axes, len(stages)
    if others or name == "pp" or not 1 < count < grid.size or grid.size % count:
        return grid
    axes = [("pp", count), (name, grid.size // count)]
    for order in permutations(axes):
        fitting = Mesh(order, grid.ranks)
        if line_of(fitting, distributed.get_rank(), "pp") == stages:
            return fitting
    return grid


def line_of(grid: Mesh, rank: int, axis: str) -> Line:
    """The ranks that differ from `rank` in the coordinate on `axis` alone."""
    mine = {**grid.coordinate(rank), axis: None}
    return tuple(
        other
        for other, place in zip(grid.ranks, grid.coordinates())
        if {**place, axis: None} == mine
    )


def _from_lines(lines: Mapping[str, Line], world: int) -> Mesh:
    """The grid of ranks 0 to `world` in which `lines` are the lines through this rank."""
    rank = distributed.get_rank()
    cut = {axis: line for axis, line in lines.items() if len(line) > 1}
    fitting = []
    for order in permutations(cut):
        grid = Mesh([(axis, len(cut[axis])) for axis in order])
        if grid.size == world and all(line_of(grid, rank, a) == cut[a] for a in order):
            fitting.append(grid)
    if len(fitting) != 1:
        raise TraceError(
            f"the ranks of the groups, {dict(lines)} on rank {rank}, are no grid of all {world} "
            f"ranks of the job; {_WAY_OUT}"
        )
    return fitting[0]


def _within(grid: Mesh, whole: Mesh) -> bool:
    """Whether `grid` consists of whole axes of `whole` with the same names."""
    return all(
        axis in whole.axes and line_of(grid, rank, axis) == line_of(whole, rank, axis)
        for axis in grid.axes
        for rank in grid.ranks
    )


def _root(mesh: Any) -> Any:
    """The device mesh that `mesh` is a slice of."""
    if hasattr(mesh, "_get_root_mesh"):
        return mesh._get_root_mesh()
    resources: Any = getattr(sys.modules[type(mesh).__module__], "_mesh_resources", None)
    return mesh if resources is None else resources.get_root_mesh(mesh)


def _identity(mesh: Any) -> tuple[Any, ...]:
    return mesh.mesh_dim_names, tuple(mesh.mesh.shape), tuple(mesh.mesh.flatten().tolist())
