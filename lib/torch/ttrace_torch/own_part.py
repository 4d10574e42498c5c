"""This rank's part of a tensor that is to be generated, from its layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ttrace_torch.dtensor import local_part
from ttrace_torch.holding import Holding, held_part
from ttrace_torch.meshes import Meshes
from ttrace_torch.placement import Placement, Placements
from ttrace_torch.placing import place
from ttrace_torch.shapes import check_local_shape


@dataclass(frozen=True)
class OwnPart:
    """What a rank holds of a tensor.

    value: the plain local tensor, detached.
    holding: which elements of the whole tensor these are.
    placements: how the tensor lies, in the order of the mesh's axes.
    coordinate: of the rank, on that mesh.
    """

    value: torch.Tensor
    holding: Holding
    placements: Mapping[str, Placement]
    coordinate: Mapping[str, int]


def own_part(
    tensor: torch.Tensor, given: Placements, kind: str, meshes: Meshes, rank: int, what: str
) -> OwnPart | None:
    """The part of `rank`, of which `tensor` is the local tensor or the DTensor.

    None where it is no part, or has no elements. Throws TraceError where the layout does not fit
    the tensor, or does not tell which elements these are.
    """
    local = local_part(tensor, meshes.default, what)
    if local is None or local.value.numel() == 0:
        return None
    placed = place(local, given, kind, meshes, what)
    holding = held_part(placed.shape, placed.placements, placed.grid, rank, what)
    if holding is None:
        return None
    where = placed.grid.coordinate(rank)
    shape = local.value.shape
    check_local_shape(placed.shape, shape, placed.placements, placed.grid, where, what)
    return OwnPart(local.value, holding, placed.placements, where)
