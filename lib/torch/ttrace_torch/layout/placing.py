"""On which mesh a tensor lies and how: what the user said and what the tensor itself says, as one.

A DTensor speaks for the ranks of its device mesh; what a layout says of the other axes was cut
before. Where the axes of a named mesh apply in another order than the tensor was cut in, and that
matters, the tensor gets a mesh of its own with the axes in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.device_mesh import fits, lifted
from ttrace_torch.layout.dtensor import LocalTensor, local_tensor_of
from ttrace_torch.layout.local_layout import LocalLayout, local_layout_of
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Flat, Placement, Placements, Replicate, touches
from ttrace_torch.layout.shapes import check_local_shape, normalised, whole_shape
from ttrace_torch.layout.sharding_order import in_sharding_order

# Kinds whose DTensors have parameters' layouts.
_OF_PARAMETERS = frozenset(
    {"param", "param_grad", "main_grad", "optimizer_state", "param_after_step"}
)


@dataclass(frozen=True)
class Placed:
    """How a tensor lies.

    mesh: name of the mesh.
    grid: that mesh.
    placements: normalised, in the order of its axes.
    shape: of the whole tensor.
    """

    mesh: str
    grid: Mesh
    placements: dict[str, Placement]
    shape: list[int]


def place(local: LocalTensor, given: Placements, kind: str, meshes: Meshes, what: str) -> Placed:
    """How the tensor lies of which a rank has the part `local`, and a layout says `given`.

    Throws TraceError where the two contradict each other or the tensor.
    """
    name, base = meshes.of(given, what)
    if local.grid is None:
        placed = normalised(given, _ndim(local, given), base, what)
        return Placed(name, base, placed, whole_shape(local.shape, placed, base, what))
    told: Mapping[str, Placement] = local.placements
    if kind in _OF_PARAMETERS:
        told = in_sharding_order(told, local.grid, local.shape)
    mesh, outer = _mesh_for(local.grid, given, name, meshes, what)
    placed = normalised({**outer, **told}, len(local.shape), mesh, what)
    # A device mesh shares out what the other axes have left.
    cutting = [*outer, *told]
    if not _commute(placed, cutting):
        mesh = mesh.reordered([axis for axis in mesh.axes if axis not in told] + list(told))
        placed = {axis: placed[axis] for axis in mesh.axes if axis in placed}
    # The DTensor's shape is whole on its own axes already; a layout may cut further ones.
    further = {axis: placed[axis] for axis in placed if axis not in told}
    whole = whole_shape(local.shape, further, mesh, what)
    return Placed(meshes.add(mesh, first=name), mesh, placed, whole)


def _ndim(local: LocalTensor, given: Placements) -> int:
    """Dimensions of the logical tensor: a flat part has one, whatever the tensor has."""
    for placement in given.values():
        if isinstance(placement, Flat):
            return len(placement.shape)
    return len(local.shape)


def _mesh_for(
    grid: Mesh, given: Placements, name: str, meshes: Meshes, what: str
) -> tuple[Mesh, dict[str, Placement]]:
    """The mesh that a device mesh is part of, and what a layout says of its other axes."""
    base = meshes.named[name]
    outer = {axis: placement for axis, placement in given.items() if axis not in grid.axes}
    for mesh in [base, *(meshes.named.values() if name == "" else ())]:
        if all(axis in mesh.axes for axis in outer) and fits(grid, mesh, what):
            return mesh, {axis: outer[axis] for axis in mesh.axes if axis in outer}
    mesh = lifted(grid, base, what)
    kept = {}
    for axis in base.axes:
        placement = outer.get(axis, Replicate())
        if axis in mesh.axes and axis not in grid.axes:
            kept[axis] = placement
        elif mesh.size < base.size and base.axes[axis] > 1 and placement != Replicate():
            raise TraceError(
                f"{what} is a DTensor on a device mesh {grid.axes} over the ranks "
                f"{list(grid.ranks)}, which are no whole axes of {base}; its layout's {placement} "
                f"on axis {axis} has no meaning there, leave it out"
            )
    return mesh, kept


def _commute(placed: Mapping[str, Placement], cutting: Sequence[str]) -> bool:
    """Whether the placements mean the same in their own order as in that of the axes `cutting`."""
    turn = {axis: number for number, axis in enumerate(cutting)}
    return all(
        turn[first] < turn[second] or not touches(placed[first], placed[second])
        for first, second in combinations(placed, 2)
    )


@dataclass(frozen=True)
class LocalShard:
    """What a rank holds of a tensor.

    value: the plain local tensor, detached.
    local_layout: which elements of the whole tensor these are.
    placements: how the tensor lies, in the order of the mesh's axes.
    coordinate: of the rank, on that mesh.
    """

    value: torch.Tensor
    local_layout: LocalLayout
    placements: Mapping[str, Placement]
    coordinate: Mapping[str, int]


def local_shard(
    tensor: torch.Tensor, given: Placements, kind: str, meshes: Meshes, rank: int, what: str
) -> LocalShard | None:
    """The part of `rank`, of which `tensor` is the local tensor or the DTensor.

    None where it is no part, or has no elements. Throws TraceError where the layout does not fit
    the tensor, or does not tell which elements these are.
    """
    local = local_tensor_of(tensor, meshes.default, what)
    if local is None or local.value.numel() == 0:
        return None
    placed = place(local, given, kind, meshes, what)
    local_layout = local_layout_of(placed.shape, placed.placements, placed.grid, rank, what)
    if local_layout is None:
        return None
    where = placed.grid.coordinate(rank)
    shape = local.value.shape
    check_local_shape(placed.shape, shape, placed.placements, placed.grid, where, what)
    return LocalShard(local.value, local_layout, placed.placements, where)
