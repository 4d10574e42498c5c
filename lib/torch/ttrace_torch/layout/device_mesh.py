"""The place of a DTensor's device mesh in the mesh of the trace. Pure geometry of ranks.

A device mesh is often a slice: the data-parallel ranks of one stage, a flattened pair of axes. The
manifest describes a tensor once for the whole mesh, so the slices of all ranks must be combined.
Each rank computes the others from its own slice and the trace's mesh.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh


def grid_of(device_mesh: Any, mesh: Mesh, what: str) -> Mesh:
    """The device mesh as a `Mesh` with its ranks.

    Throws TraceError if it has no axis names and is not the trace's mesh.
    """
    sizes, ranks = _sizes_and_ranks(device_mesh)
    names: tuple[str, ...] | None = device_mesh.mesh_dim_names
    if names is None:
        if sizes != list(mesh.axes.values()) or tuple(ranks) != mesh.ranks:
            raise TraceError(
                f"{what} is a DTensor on a device mesh {sizes} without names; give "
                f"init_device_mesh(..., mesh_dim_names=...) the names of {mesh}"
            )
        names = tuple(mesh.axes)
    return Mesh(list(zip(names, sizes)), ranks)


@lru_cache(maxsize=64)
def _sizes_and_ranks(device_mesh: Any) -> tuple[list[int], list[int]]:
    # `mesh` is a new tensor at every access, which takes longer than recording a small one.
    sizes = [int(device_mesh.size(i)) for i in range(device_mesh.ndim)]
    return sizes, device_mesh.mesh.flatten().tolist()


def fits(grid: Mesh, mesh: Mesh, what: str) -> bool:
    """Whether the axes of `grid` are axes of `mesh`, at one coordinate of the others.

    Throws TraceError if the axes have equal names and sizes, but place the ranks differently.
    """
    if any(mesh.axes.get(axis) != size for axis, size in grid.axes.items()):
        return False
    if any(not mesh.holds(rank) for rank in grid.ranks):
        return False
    misplaced = _misplaced(grid, mesh)
    if misplaced is not None:
        where, found = grid.coordinate(misplaced), mesh.coordinate(misplaced)
        raise TraceError(
            f"{what} is a DTensor on a device mesh {grid.axes} with rank {misplaced} at {where}, "
            f"but the trace's {mesh} has it at {found}; give trace(mesh=Mesh({{...}})) the "
            "axes in the order of init_device_mesh, the last one fastest"
        )
    return True


@lru_cache(maxsize=256)
def _misplaced(grid: Mesh, mesh: Mesh) -> int | None:
    """A rank whose coordinate on `mesh` differs from that on `grid`; None without one."""
    start = mesh.coordinate(grid.ranks[0])
    for rank, where in zip(grid.ranks, grid.coordinates()):
        if mesh.coordinate(rank) != {**start, **where}:
            return rank
    return None


def lifted(grid: Mesh, mesh: Mesh, what: str) -> Mesh:
    """`grid` together with its translates over the axes of `mesh` of which it has one coordinate.

    Those axes come first: a device mesh cuts what they leave. Axes of size 1 are dropped. A grid
    that is no product of whole axes of `mesh` is returned unchanged.
    Throws TraceError for ranks that `mesh` lacks, and for an axis with the name of another axis of
    `mesh`.
    """
    missing = [rank for rank in grid.ranks if not mesh.holds(rank)]
    if missing:
        raise TraceError(
            f"{what} is a DTensor on a device mesh {grid.axes} with ranks {missing} that are "
            f"outside the trace's {mesh}; give trace(mesh=Mesh({{...}})) the axes of the whole run"
        )
    outer = _outer_axes(grid, mesh)
    if outer is None:
        return grid
    twice = [axis for axis in outer if axis in grid.axes]
    if twice:
        raise TraceError(
            f"{what} is a DTensor on a device mesh {grid.axes} over the ranks {list(grid.ranks)}, "
            f"whose axis {twice[0]!r} is not the axis {twice[0]!r} of the trace's {mesh}; give the "
            "axes the same names in trace(mesh=Mesh({...})) and in the device mesh"
        )
    return _with_translates(grid, mesh, outer)


@lru_cache(maxsize=256)
def _outer_axes(grid: Mesh, mesh: Mesh) -> tuple[str, ...] | None:
    """The axes of `mesh`, larger than 1, of which `grid` has one coordinate.

    Returns None if `grid` is no product of whole axes.
    """
    places = [mesh.coordinate(rank) for rank in grid.ranks]
    covered = {axis for axis in mesh.axes if len({place[axis] for place in places}) > 1}
    if prod(mesh.axes[axis] for axis in covered) != grid.size:
        return None
    return tuple(axis for axis, size in mesh.axes.items() if axis not in covered and size > 1)


@lru_cache(maxsize=256)
def _with_translates(grid: Mesh, mesh: Mesh, outer: tuple[str, ...]) -> Mesh:
    ranks_at = {tuple(mesh.coordinate(rank).items()): rank for rank in mesh.ranks}
    ranks = [
        ranks_at[tuple({**mesh.coordinate(rank), **dict(zip(outer, shift))}.items())]
        for shift in product(*(range(mesh.axes[axis]) for axis in outer))
        for rank in grid.ranks
    ]
    return Mesh([*((axis, mesh.axes[axis]) for axis in outer), *grid.axes.items()], ranks)
