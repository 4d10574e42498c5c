"""Shapes under placements: of the whole tensor from a local one, and the checks between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import (
    KINDS,
    Boxes,
    DimPlacement,
    Flat,
    Placement,
    Placements,
    Replicate,
    Rows,
    applied_order,
    to_json,
)


def normalised(placements: Placements, ndim: int, mesh: Mesh, what: str) -> dict[str, Placement]:
    """`placements` in the order of the mesh, without replicated axes, dimensions counted from 0.

    Throws TraceError for an axis that the mesh lacks, a dimension that a tensor of `ndim`
    dimensions lacks, a number of shards that is not the size of the axis, and placements that
    exclude each other.
    """
    check_axes(placements, mesh, what)
    found = {
        axis: placements[axis].normalised(ndim, size, axis, what)
        for axis, size in mesh.axes.items()
        if not isinstance(placements.get(axis, Replicate()), Replicate)
    }
    _check_together(found, what)
    return found


def check_axes(placements: Placements, mesh: Mesh, what: str) -> None:
    """Throws TraceError if `placements` names an axis that the mesh lacks, or no placement."""
    for axis, placement in placements.items():
        if axis not in mesh.axes:
            raise TraceError(
                f"{what}: there is no mesh axis {axis!r}; the mesh has "
                f"{', '.join(mesh.axes) or 'no axes'}"
            )
        if not isinstance(placement, Placement):
            names = ", ".join(kind.__name__ for kind in KINDS[1:])
            raise TraceError(
                f"{what}: {placement!r} on axis {axis} is none of Replicate(), {names}"
            )


def whole_shape(
    local: Sequence[int], placements: Mapping[str, Placement], mesh: Mesh, what: str
) -> list[int]:
    """The logical tensor's shape, from a local one and normalised placements.

    An axis that gives no extent of the whole counts as evenly sharded. Throws TraceError if two
    axes give different extents of one dimension.
    """
    shape = list(local)
    # The innermost cut is undone first.
    for axis, placement in reversed(applied_order(placements)):
        shape = placement.whole_extents(shape, mesh.axes[axis])
    declared: dict[int, int] = {}
    for axis, placement in placements.items():
        if placement.declared_extent is not None:
            dim, extent = placement.declared_extent
            if declared.setdefault(dim, extent) != extent:
                raise TraceError(
                    f"{what}: axis {axis} says that dimension {dim} is "
                    f"{extent} long as a whole, another axis says {declared[dim]}; "
                    "give both the extent of the whole tensor"
                )
            shape[dim] = extent
    return shape


def check_local_shape(
    whole: Sequence[int],
    local: Sequence[int],
    placements: Mapping[str, Placement],
    mesh: Mesh,
    coordinate: Mapping[str, int],
    what: str,
) -> None:
    """Throws TraceError if cutting `whole` by `placements` does not leave `local` at
    `coordinate`."""
    left = list(whole)
    for axis, placement in applied_order(placements):
        if isinstance(placement, Rows):
            # The index alone has the number of rows.
            left[placement.dim] = list(local)[placement.dim]
            continue
        try:
            left = placement.local_extents(left, mesh.axes[axis], coordinate[axis])
        except TraceError as error:
            raise TraceError(f"{what}, axis {axis}: {error}") from error
    # FSDP2 gives empty shards other extents in the dimensions that are not cut to 0.
    if left != list(local) and not (0 in left and 0 in local):
        raise TraceError(
            f"{what}: this rank holds {list(local)}, but {list(whole)} cut as "
            f"{to_json(placements)} leaves {left} at {dict(coordinate)}; give the whole extent as "
            "Shard(dim, size=...) or the parts as Shard(dim, sizes=[...])"
        )


def _check_together(placements: Mapping[str, Placement], what: str) -> None:
    flat = [axis for axis, placement in placements.items() if isinstance(placement, Flat)]
    if len(flat) > 1:
        raise TraceError(f"{what}: flat on the axes {', '.join(flat)}; only one axis can be")
    for axis, rows in placements.items():
        if not isinstance(rows, Rows):
            continue
        for other, placement in placements.items():
            same = isinstance(placement, Rows) and placement.index == rows.index
            cuts = isinstance(placement, DimPlacement) and placement.dim == rows.dim
            if (cuts and not same) or isinstance(placement, (Boxes, Flat)):
                raise TraceError(
                    f"{what}: the rows of dimension {rows.dim} over {axis} stand in an index, so "
                    f"{placement} on axis {other} cannot cut them too; name all rows in the index"
                )
