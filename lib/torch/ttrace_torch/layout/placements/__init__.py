"""Placements of the trace format: how a tensor lies along one mesh axis.

Each kind is one file: the checks of its numbers, its JSON form, the elements that a rank holds, and
the extents of the whole. To add a kind, write its file and add it to `KINDS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ttrace_torch.layout.placements.boxes import Boxes
from ttrace_torch.layout.placements.flat import Flat
from ttrace_torch.layout.placements.only import Only
from ttrace_torch.layout.placements.partial import Partial
from ttrace_torch.layout.placements.placement import DimCut, DimPlacement, Placement
from ttrace_torch.layout.placements.replicate import Replicate
from ttrace_torch.layout.placements.rows import Rows
from ttrace_torch.layout.placements.segments import Segments
from ttrace_torch.layout.placements.shard import Shard
from ttrace_torch.layout.placements.strided import Strided
from ttrace_torch.layout.placements.zigzag import Zigzag

# All kinds. A kind whose JSON form has members of an earlier kind comes after it.
KINDS: tuple[type[Placement], ...] = (
    Replicate,
    Shard,
    Zigzag,
    Segments,
    Strided,
    Boxes,
    Flat,
    Rows,
    Partial,
    Only,
)

# Axis -> placement.
Placements = Mapping[str, Placement]
# Placements of all tensors of a module, or of each one.
TensorPlacements = Union[Placements, Sequence[Optional[Placements]]]

__all__ = [
    "KINDS",
    "Boxes",
    "DimCut",
    "DimPlacement",
    "Flat",
    "OnMesh",
    "Only",
    "Partial",
    "Placement",
    "Placements",
    "Replicate",
    "Rows",
    "SKIP",
    "Segments",
    "Skip",
    "Shard",
    "Strided",
    "TensorPlacements",
    "Zigzag",
    "applied_order",
    "from_json",
    "kind_of",
    "mesh_name_of",
    "to_json",
    "touches",
]


class OnMesh(dict[str, Placement]):
    """Placements on the axes of a named mesh instead of the default one.

    `OnMesh("expert", {"ep": Shard(0)})` refers to `trace(meshes={"expert": Mesh({...})})`.
    """

    def __init__(self, mesh: str, placements: Placements) -> None:
        super().__init__(placements)
        self.mesh = mesh


class Skip(dict[str, Placement]):
    """No placements: the tensor is not recorded, and the manifest says why."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why

    def __repr__(self) -> str:
        return "SKIP"


SKIP = Skip("its layout skips it")


def mesh_name_of(placements: Placements) -> str:
    """Name of the mesh that the placements refer to; "" is the default mesh."""
    return placements.mesh if isinstance(placements, OnMesh) else ""


def to_json(placements: Placements) -> dict[str, Any]:
    """The manifest's form of normalised placements, without replicated axes."""
    found = {axis: placement.to_json() for axis, placement in placements.items()}
    return {axis: value for axis, value in found.items() if value is not None}


def kind_of(value: Any) -> type[Placement]:
    """The kind that a JSON value describes; `Replicate` for everything unknown."""
    if isinstance(value, dict):
        for kind in reversed(KINDS):
            if kind.json_member in value:
                return kind
    return Replicate


def from_json(value: Any) -> Placement:
    """The placement that a JSON value describes.

    Returns `Replicate` for kinds whose JSON form gives no local extents (flat, rows, partial,
    only). Throws TraceError for numbers that contradict each other.
    """
    return kind_of(value).from_json(value) or Replicate()


def touches(one: Placement, other: Placement) -> bool:
    """Whether the order of the two matters: whether they cut the same dimension.

    Flat ranges never count, they apply last in any order. Dimensions are counted from 0.
    """
    if one.cut_dim is None or other.cut_dim is None:
        return False
    return one.cut_dim == other.cut_dim or "all" in (one.cut_dim, other.cut_dim)


def applied_order(placements: Placements) -> list[tuple[str, Placement]]:
    """The (axis, placement) pairs in the order in which they apply: a flat one last."""
    pairs = list(placements.items())
    return sorted(pairs, key=lambda item: isinstance(item[1], Flat)) if len(pairs) > 1 else pairs
