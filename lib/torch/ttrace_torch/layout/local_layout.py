"""Which elements of the whole tensor a rank has, from the placements alone.

Every placement but `Rows` leaves a product: some indices of every dimension, in some order. `Flat`
takes a range of what that makes, flattened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.cuts.boxes import box_part
from ttrace_torch.layout.cuts.flat import flat_length
from ttrace_torch.layout.cuts.part import dimension_part
from ttrace_torch.layout.cuts.ranges import Ranges, appended, total
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placement import DIMENSION_CUTS, Boxes, Flat, Only, Placement, Rows


@dataclass(frozen=True)
class LocalLayout:
    """A rank's part of a tensor.

    shape: of the whole tensor.
    ranges: for every dimension the indices held, in local order.
    window: (start, stop) of the flattened array that they make; None where all of it is held.
    """

    shape: tuple[int, ...]
    ranges: tuple[tuple[tuple[int, int], ...], ...]
    window: tuple[int, int] | None = None

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Extents of the array that the ranges make."""
        return tuple(total(list(ranges)) for ranges in self.ranges)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Extents of the rank's tensor."""
        if self.window is None:
            return self.array_shape
        return (self.window[1] - self.window[0],)


def whole(shape: Sequence[int]) -> LocalLayout:
    """All of a tensor of `shape`."""
    return LocalLayout(tuple(shape), tuple(tuple(appended([], 0, extent)) for extent in shape))


def local_layout_of(
    shape: Sequence[int],
    placements: Mapping[str, Placement],
    mesh: Mesh,
    rank: int,
    what: str,
) -> LocalLayout | None:
    """What `rank` holds of a tensor of `shape`; None where that is no part at all.

    placements: normalised, in the order of the axes of `mesh`. A partial tensor's terms have all of
        its elements. Throws TraceError where the placements do not fit the shape, and for `Rows`.
    """
    if not mesh.holds(rank):
        return None
    coordinate = mesh.coordinate(rank)
    held: list[Ranges] = [appended([], 0, extent) for extent in shape]
    flat: Flat | None = None
    window: tuple[int, int] | None = None
    for axis, placement in placements.items():
        index = coordinate[axis]
        try:
            if isinstance(placement, Only) and placement.coordinate != index:
                return None
            if isinstance(placement, Rows):
                raise TraceError(
                    f'which rows it has stands in the index "{placement.index}", not in the '
                    "placement; cut it by Shard or Boxes to generate it"
                )
            if isinstance(placement, DIMENSION_CUTS):
                kept = held[placement.dim]
                part = dimension_part(placement, total(kept), mesh.axes[axis], index)
                held[placement.dim] = _selected(kept, part)
            elif isinstance(placement, Boxes):
                parts = box_part(placement.boxes, [total(kept) for kept in held], index)
                held = [_selected(kept, appended([], *one)) for kept, one in zip(held, parts)]
            elif isinstance(placement, Flat):
                flat, window = placement, placement.ranges[index]
        except TraceError as error:
            raise TraceError(f"{what}, axis {axis}: {error}") from error
    if flat is not None:
        try:
            flat_length(flat.ranges, flat.shape, [total(kept) for kept in held], 0)
        except TraceError as error:
            raise TraceError(f"{what}: {error}") from error
    return LocalLayout(tuple(shape), tuple(map(tuple, held)), window)


def elements(local_layout: LocalLayout) -> int:
    """Number of elements of the rank's tensor."""
    return prod(local_layout.local_shape)


def _selected(held: Ranges, positions: Ranges) -> Ranges:
    """The indices of `held` at the local positions `positions`."""
    found: Ranges = []
    for start, length in positions:
        passed = 0
        for first, count in held:
            low, high = max(start, passed), min(start + length, passed + count)
            if low < high:
                found = appended(found, first + low - passed, high - low)
            passed += count
    return found
