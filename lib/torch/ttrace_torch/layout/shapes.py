"""From a rank's local shape and a layout to the whole tensor's shape, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.cuts.boxes import boxes_extents
from ttrace_torch.layout.cuts.flat import flat_length
from ttrace_torch.layout.cuts.part import extents_left
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placement import (
    DIMENSION_CUTS,
    PLACEMENTS,
    Boxes,
    Flat,
    Only,
    Placement,
    Placements,
    Replicate,
    Rows,
    Segments,
    Shard,
    Strided,
    Zigzag,
)
from ttrace_torch.layout.placement_json import to_json


def normalised(placements: Placements, ndim: int, mesh: Mesh, what: str) -> dict[str, Placement]:
    """`placements` in the order of the mesh, replicated axes dropped, dimensions counted from 0.

    Throws for an axis that the mesh lacks, a dimension that a tensor of `ndim` dimensions lacks,
    parts that are not one for each coordinate, and placements that exclude each other.
    """
    check_axes(placements, mesh, what)
    found: dict[str, Placement] = {}
    for axis, size in mesh.axes.items():
        placement = placements.get(axis, Replicate())
        if isinstance(placement, Replicate):
            continue
        if isinstance(placement, Only) and not 0 <= placement.coordinate < size:
            raise TraceError(
                f"{what}: Only({placement.coordinate}) on axis {axis}, which has {size} "
                "coordinates; give one of them"
            )
        if isinstance(placement, (*DIMENSION_CUTS, Rows)):
            if not -ndim <= placement.dim < ndim:
                raise TraceError(
                    f"{what}: cut along dimension {placement.dim} over {axis}, but the tensor has "
                    f"{ndim} dimension(s); where a module has several tensors, give its layout as "
                    "a list, one placement for each"
                )
            placement = replace(placement, dim=placement.dim % ndim)
        if isinstance(placement, Boxes) and len(placement.boxes[0][0]) != ndim:
            raise TraceError(
                f"{what}: boxes of {len(placement.boxes[0][0])} dimensions on axis {axis}, but the "
                f"tensor has {ndim} dimension(s); give every dimension its offset and size"
            )
        for word, count in _counts(placement):
            if count != size:
                raise TraceError(
                    f"{what}: {count} {word} for axis {axis}, which has {size} coordinates; give "
                    "one for each"
                )
        found[axis] = placement
    _check_together(found, what)
    return found


def check_axes(placements: Placements, mesh: Mesh, what: str) -> None:
    """Throws where `placements` names an axis that the mesh lacks, or no placement."""
    for axis, placement in placements.items():
        if axis not in mesh.axes:
            raise TraceError(
                f"{what}: there is no mesh axis {axis!r}; the mesh has "
                f"{', '.join(mesh.axes) or 'no axes'}"
            )
        if not isinstance(placement, PLACEMENTS):
            words = ", ".join(word.__name__ for word in PLACEMENTS[1:])
            raise TraceError(
                f"{what}: {placement!r} on axis {axis} is none of Replicate(), {words}"
            )


def whole_shape(
    local: Sequence[int], placements: Mapping[str, Placement], mesh: Mesh, what: str
) -> list[int]:
    """The logical tensor's shape, from a local one and normalised placements.

    An axis that gives no extent of the whole is taken to cut evenly.
    """
    shape = list(local)
    for placement in placements.values():
        if isinstance(placement, Flat):
            shape = list(placement.shape)
    # The innermost cut is undone first.
    for axis, placement in reversed(list(placements.items())):
        if isinstance(placement, Shard) and placement.sizes is not None:
            shape[placement.dim] = sum(placement.sizes)
        elif isinstance(placement, Segments):
            shape[placement.dim] = placement.repeat * sum(placement.segments)
        elif isinstance(placement, DIMENSION_CUTS):
            shape[placement.dim] *= mesh.axes[axis]
        elif isinstance(placement, Boxes):
            shape = boxes_extents(placement.boxes)
    told: dict[int, int] = {}
    for axis, placement in placements.items():
        if isinstance(placement, (Shard, Zigzag, Strided, Rows)) and placement.size is not None:
            if told.setdefault(placement.dim, placement.size) != placement.size:
                raise TraceError(
                    f"{what}: axis {axis} says that dimension {placement.dim} is "
                    f"{placement.size} long as a whole, another axis says {told[placement.dim]}; "
                    "give both the extent of the whole tensor"
                )
            shape[placement.dim] = placement.size
    return shape


def check_local_shape(
    whole: Sequence[int],
    local: Sequence[int],
    placements: Mapping[str, Placement],
    mesh: Mesh,
    coordinate: Mapping[str, int],
    what: str,
) -> None:
    """Throws where cutting `whole` as `placements` say does not leave `local` at `coordinate`."""
    left = list(whole)
    flat: tuple[str, Flat] | None = None
    for axis, placement in placements.items():
        if isinstance(placement, Flat):
            flat = axis, placement
        elif isinstance(placement, Rows):
            # How many rows it is stands in the index alone.
            left[placement.dim] = list(local)[placement.dim]
        else:
            try:
                left = extents_left(placement, left, mesh.axes[axis], coordinate[axis])
            except TraceError as error:
                raise TraceError(f"{what}, axis {axis}: {error}") from error
    if flat is not None:
        axis, ranges = flat
        try:
            left = [flat_length(ranges.ranges, ranges.shape, left, coordinate[axis])]
        except TraceError as error:
            raise TraceError(f"{what}, axis {axis}: {error}") from error
    # Nothing is nothing: FSDP2 gives empty shards other extents in the dimensions not cut to 0.
    if left != list(local) and not (0 in left and 0 in local):
        raise TraceError(
            f"{what}: this rank holds {list(local)}, but {list(whole)} cut as "
            f"{to_json(placements)} leaves {left} at {dict(coordinate)}; give the whole extent as "
            "Shard(dim, size=...) or the parts as Shard(dim, sizes=[...])"
        )


def _counts(placement: Placement) -> list[tuple[str, int]]:
    """What a placement gives one of for each coordinate, and how many it gives."""
    if isinstance(placement, Shard) and placement.sizes is not None:
        return [("sizes", len(placement.sizes))]
    if isinstance(placement, Segments) and placement.sizes is not None:
        return [("parts of a segment", len(parts)) for parts in placement.sizes]
    if isinstance(placement, Boxes):
        return [("boxes", len(placement.boxes))]
    if isinstance(placement, Flat):
        return [("flat ranges", len(placement.ranges))]
    return []


def _check_together(placements: Mapping[str, Placement], what: str) -> None:
    flat = [axis for axis, placement in placements.items() if isinstance(placement, Flat)]
    if len(flat) > 1:
        raise TraceError(f"{what}: flat on the axes {', '.join(flat)}; only one axis can be")
    for axis, rows in placements.items():
        if not isinstance(rows, Rows):
            continue
        for other, placement in placements.items():
            same = isinstance(placement, Rows) and placement.index == rows.index
            cuts = isinstance(placement, (*DIMENSION_CUTS, Rows)) and placement.dim == rows.dim
            if (cuts and not same) or isinstance(placement, (Boxes, Flat)):
                raise TraceError(
                    f"{what}: the rows of dimension {rows.dim} over {axis} stand in an index, so "
                    f"{placement} on axis {other} cannot cut them too; name all rows in the index"
                )
