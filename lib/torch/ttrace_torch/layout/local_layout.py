"""The local layout: which elements of the whole tensor a rank holds, from the placements alone.

Every placement but `Rows` and `Flat` leaves a product: some indices of every dimension, in some
order. `Flat` takes a range of that product, flattened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Flat, Placement
from ttrace_torch.layout.placements.placement import whole_ranges
from ttrace_torch.layout.placements.ranges import Ranges, appended, selected, total


@dataclass(frozen=True)
class LocalLayout:
    """A rank's elements of a tensor.

    shape: shape of the whole tensor.
    ranges: for every dimension the indices held, in local order.
    window: (start, stop) in the flattened array of these indices; None if all of it is held.
    """

    shape: tuple[int, ...]
    ranges: tuple[tuple[tuple[int, int], ...], ...]
    window: tuple[int, int] | None = None

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the array that the ranges make, before `window`."""
        return tuple(total(list(ranges)) for ranges in self.ranges)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of the rank's tensor; 1-D under a window."""
        if self.window is None:
            return self.array_shape
        return (self.window[1] - self.window[0],)


def whole(shape: Sequence[int]) -> LocalLayout:
    """The local layout of a rank that holds all of a tensor of `shape`."""
    return LocalLayout(tuple(shape), tuple(tuple(appended([], 0, extent)) for extent in shape))


def local_layout_of(
    shape: Sequence[int],
    placements: Mapping[str, Placement],
    mesh: Mesh,
    rank: int,
    what: str,
) -> LocalLayout | None:
    """The local layout of `rank` for a tensor of `shape`; None if the rank does not hold it.

    placements: normalised, in the order of the axes of `mesh`. Each term of a partial tensor has
        all its elements.
    Throws TraceError if the placements do not fit the shape, and for `Rows`.
    """
    if not mesh.holds(rank):
        return None
    coordinate = mesh.coordinate(rank)
    held: list[Ranges] = whole_ranges(shape)
    flat: tuple[Flat, int] | None = None
    for axis, placement in placements.items():
        index = coordinate[axis]
        if not placement.holds(index):
            return None
        if isinstance(placement, Flat):
            flat = placement, index
            continue
        try:
            extents = [total(kept) for kept in held]
            local = placement.local_ranges(extents, mesh.axes[axis], index)
            held = [selected(kept, positions) for kept, positions in zip(held, local)]
        except TraceError as error:
            raise TraceError(f"{what}, axis {axis}: {error}") from error
    window = None
    if flat is not None:
        try:
            window = flat[0].window([total(kept) for kept in held], flat[1])
        except TraceError as error:
            raise TraceError(f"{what}: {error}") from error
    return LocalLayout(tuple(shape), tuple(map(tuple, held)), window)


def elements(layout: LocalLayout) -> int:
    """Number of elements of the rank's tensor."""
    return prod(layout.local_shape)
