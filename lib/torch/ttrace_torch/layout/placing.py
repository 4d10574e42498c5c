"""Combines a tensor's own placements with those of the user's layout.

A DTensor describes the ranks of its device mesh; the layout's other axes cut the tensor before. If
the axes of a named mesh apply in another order than the tensor was cut in, and the order matters,
the tensor gets a mesh of its own with the axes in that order.
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

# Kinds whose DTensors have the layouts of parameters.
_OF_PARAMETERS = frozenset(
    {"param", "param_grad", "main_grad", "optimizer_state", "param_after_step"}
)


@dataclass(frozen=True)
class Placed:
    """The placement of a tensor.

    mesh: name of the mesh.
    grid: the mesh.
    placements: normalised, in the order of the mesh's axes.
    shape: shape of the whole tensor.
    """

    mesh: str
    grid: Mesh
    placements: dict[str, Placement]
    shape: list[int]


def place(local: LocalTensor, given: Placements, kind: str, meshes: Meshes, what: str) -> Placed:
    """The placement of the tensor whose local tensor is `local` and whose layout is `given`.

    Throws TraceError if the two contradict each other or the tensor.
    """
    name, base = meshes.of(given, what)
    if local.grid is None:
        placed = normalised(given, _ndim(local, given), base, what)
        return Placed(name, base, placed, whole_shape(local.shape, placed, base, what))
    own: Mapping[str, Placement] = local.placements
    if kind in _OF_PARAMETERS:
        own = in_sharding_order(own, local.grid, local.shape)
    mesh, outer = _mesh_for(local.grid, given, name, meshes, what)
    placed = normalised({**outer, **own}, len(local.shape), mesh, what)
    # A device mesh cuts what the other axes leave.
    cutting = [*outer, *own]
    if not _commute(placed, cutting):
        mesh = mesh.reordered([axis for axis in mesh.axes if axis not in own] + list(own))
        placed = {axis: placed[axis] for axis in mesh.axes if axis in placed}
    # The DTensor's shape is whole on its own axes; a layout may cut further ones.
    further = {axis: placed[axis] for axis in placed if axis not in own}
    whole = whole_shape(local.shape, further, mesh, what)
    return Placed(meshes.add(mesh, first=name), mesh, placed, whole)


def _ndim(local: LocalTensor, given: Placements) -> int:
    """Number of dimensions of the logical tensor; a flat local tensor has only one."""
    for placement in given.values():
        if isinstance(placement, Flat):
            return len(placement.shape)
    return len(local.shape)


def _mesh_for(
    grid: Mesh, given: Placements, name: str, meshes: Meshes, what: str
) -> tuple[Mesh, dict[str, Placement]]:
    """The mesh that contains the device mesh `grid`, and the layout's placements on its other
    axes."""
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
    """Whether the order of `placed` and that of the axes `cutting` mean the same."""
    turn = {axis: number for number, axis in enumerate(cutting)}
    return all(
        turn[first] < turn[second] or not touches(placed[first], placed[second])
        for first, second in combinations(placed, 2)
    )


@dataclass(frozen=True)
class LocalShard:
    """A rank's shard of a tensor.

    value: the plain local tensor, detached.
    local_layout: which elements of the whole tensor these are.
    placements: placements of the tensor, in the order of the mesh's axes.
    coordinate: the rank's coordinate on that mesh.
    """

    value: torch.Tensor
    local_layout: LocalLayout
    placements: Mapping[str, Placement]
    coordinate: Mapping[str, int]


def local_shard(
    tensor: torch.Tensor, given: Placements, kind: str, meshes: Meshes, rank: int, what: str
) -> LocalShard | None:
    """The shard of `rank`; `tensor` is its local tensor, or the DTensor.

    Returns None if the rank holds no element. Throws TraceError if the layout does not fit the
    tensor, or does not determine which elements the rank holds.
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
