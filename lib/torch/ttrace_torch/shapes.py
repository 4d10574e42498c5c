"""From a rank's local shape and a layout to the whole tensor's shape, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout import Mesh, Only, Partial, Placement, Placements, Replicate, Shard


def normalised(placements: Placements, ndim: int, mesh: Mesh, what: str) -> dict[str, Placement]:
    """`placements` in the order of the mesh, replicated axes dropped, dimensions counted from 0.

    Throws for an axis that the mesh lacks and a dimension that a tensor of `ndim` dimensions lacks.
    """
    check_axes(placements, mesh, what)
    found: dict[str, Placement] = {}
    for axis, size in mesh.axes.items():
        placement = placements.get(axis, Replicate())
        if isinstance(placement, Replicate):
            continue
        if isinstance(placement, Only) and not 0 <= placement.coordinate < size:
            raise TraceError(
                f"{what}: Only({placement.coordinate}) on axis {axis}, which has {size} coordinates"
            )
        if isinstance(placement, Shard):
            if not -ndim <= placement.dim < ndim:
                raise TraceError(
                    f"{what}: cut along dimension {placement.dim} over {axis}, but the tensor has "
                    f"{ndim} dimension(s); where a module has several tensors, give its layout as "
                    "a list, one placement for each"
                )
            if placement.sizes is not None and len(placement.sizes) != size:
                raise TraceError(
                    f"{what}: {len(placement.sizes)} sizes for axis {axis}, which has {size} "
                    "coordinates"
                )
            placement = Shard(placement.dim % ndim, placement.sizes, placement.size)
        found[axis] = placement
    return found


def check_axes(placements: Placements, mesh: Mesh, what: str) -> None:
    """Throws where `placements` names an axis that the mesh lacks, or no placement."""
    for axis, placement in placements.items():
        if axis not in mesh.axes:
            raise TraceError(
                f"{what}: there is no mesh axis {axis!r}; the mesh has "
                f"{', '.join(mesh.axes) or 'no axes'}"
            )
        if not isinstance(placement, (Replicate, Shard, Partial, Only)):
            raise TraceError(
                f"{what}: {placement!r} on axis {axis} is none of Replicate(), Shard(dim), "
                "Partial(), Only(coordinate)"
            )


def whole_shape(
    local: Sequence[int], placements: dict[str, Placement], mesh: Mesh, what: str
) -> list[int]:
    """The logical tensor's shape, from a local one and normalised placements.

    An axis that neither gives `sizes` nor `size` is taken to cut evenly.
    """
    shape = list(local)
    # The innermost cut is undone first.
    for axis, placement in reversed(placements.items()):
        if isinstance(placement, Shard):
            if placement.sizes is not None:
                shape[placement.dim] = sum(placement.sizes)
            else:
                shape[placement.dim] *= mesh.axes[axis]
    told: dict[int, int] = {}
    for axis, placement in placements.items():
        if isinstance(placement, Shard) and placement.size is not None:
            if told.setdefault(placement.dim, placement.size) != placement.size:
                raise TraceError(
                    f"{what}: axis {axis} says that dimension {placement.dim} is "
                    f"{placement.size} long as a whole, another axis says {told[placement.dim]}"
                )
            shape[placement.dim] = placement.size
    return shape


def check_local_shape(
    whole: Sequence[int],
    local: Sequence[int],
    placements: dict[str, Placement],
    mesh: Mesh,
    coordinate: dict[str, int],
    what: str,
) -> None:
    """Throws where cutting `whole` as `placements` say does not leave `local` at `coordinate`."""
    left = list(whole)
    for axis, placement in placements.items():
        if isinstance(placement, Shard):
            left[placement.dim] = part(
                left[placement.dim], placement, mesh.axes[axis], coordinate[axis]
            )
    if left != list(local):
        raise TraceError(
            f"{what}: this rank holds {list(local)}, but {list(whole)} cut as "
            f"{to_json(placements)} leaves {left} at {coordinate}; give the whole extent as "
            "Shard(dim, size=...) or the parts as Shard(dim, sizes=[...])"
        )


def part(extent: int, placement: Shard, parts: int, index: int) -> int:
    """Extent of part `index` when `extent` is cut as `placement` says."""
    if placement.sizes is not None:
        return placement.sizes[index]
    step = -(-extent // parts)
    return max(0, min(extent - index * step, step))


def to_json(placements: dict[str, Placement]) -> dict[str, Any]:
    """Normalised placements as the manifest has them."""
    found: dict[str, Any] = {}
    for axis, placement in placements.items():
        if isinstance(placement, Shard):
            found[axis] = {"shard": placement.dim}
            if placement.sizes is not None:
                found[axis]["sizes"] = list(placement.sizes)
        elif isinstance(placement, Partial):
            found[axis] = {"partial": placement.reduction}
        elif isinstance(placement, Only):
            found[axis] = {"only": placement.coordinate}
    return found
