"""The words for how a tensor lies along one mesh axis: the placements of the trace format.

Plain values that check themselves. Which elements a coordinate holds under each of them is worked
out in `cuts`, what a whole tensor looks like in `shapes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from ttrace_torch.base.names import check_name
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.cuts.boxes import Box, boxes_of
from ttrace_torch.layout.cuts.flat import ranges_of


@dataclass(frozen=True)
class Replicate:
    """Every coordinate of the axis holds an equal copy."""


@dataclass(frozen=True)
class Shard:
    """Dimension `dim` is cut over the axis, in the order of `torch.chunk`.

    dim: may be negative, counted from the end.
    sizes: extent of each coordinate's part, where the parts are not those of `torch.chunk`.
    size: extent of the whole dimension. Needed where it is no multiple of the axis, because a
        rank cannot tell from its own part what the others hold.
    """

    dim: int
    sizes: Sequence[int] | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.sizes is not None:
            if self.size is not None and self.size != sum(self.sizes):
                raise TraceError(
                    f"Shard({self.dim}): size {self.size} is not the sum of sizes "
                    f"{list(self.sizes)}; give one of the two"
                )
            object.__setattr__(self, "sizes", tuple(int(s) for s in self.sizes))


@dataclass(frozen=True)
class Zigzag:
    """Dimension `dim` in 2·n chunks for n coordinates; coordinate i holds chunks i and 2n-1-i.

    size: extent of the whole dimension, where it is no multiple of 2·n.
    """

    dim: int
    size: int | None = None


@dataclass(frozen=True)
class Segments:
    """Dimension `dim` is several things one after the other (q, k and v), each cut on its own.

    segments: their extents in what the earlier axes left, the whole list `repeat` times.
    sizes: for each segment the coordinates' parts, where they are not those of `torch.chunk`.
    """

    dim: int
    segments: Sequence[int]
    repeat: int = 1
    sizes: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        segments = tuple(int(extent) for extent in self.segments)
        object.__setattr__(self, "segments", segments)
        what = f"Segments({self.dim}, {list(segments)})"
        if not segments or min(segments) < 0 or self.repeat < 1:
            raise TraceError(
                f"{what}, repeat {self.repeat}: give at least one segment, none of them negative, "
                "and repeat them at least once"
            )
        if self.sizes is None:
            return
        sizes = tuple(tuple(int(size) for size in parts) for parts in self.sizes)
        object.__setattr__(self, "sizes", sizes)
        if len(sizes) != len(segments):
            raise TraceError(f"{what}: {len(sizes)} lists of sizes; give one for each segment")
        for extent, parts in zip(segments, sizes):
            if sum(parts) != extent:
                raise TraceError(
                    f"{what}: the parts {list(parts)} add up to {sum(parts)}, but their segment "
                    f"has {extent}; make them add up"
                )


@dataclass(frozen=True)
class Strided:
    """Dimension `dim` in `stride` chunks, each cut over the axis on its own.

    What DTensor calls `_StridedShard` with that split factor, Megatron `partition_stride`.
    size: extent of the whole dimension, where it is no multiple of stride times axis.
    """

    dim: int
    stride: int
    size: int | None = None

    def __post_init__(self) -> None:
        if self.stride < 1:
            raise TraceError(f"Strided({self.dim}, {self.stride}): the stride is at least 1")


@dataclass(frozen=True)
class Boxes:
    """Coordinate i holds the i-th hyper-rectangle of what the earlier axes left.

    boxes: (offsets, sizes) for each coordinate; together they hold every element once.
    """

    boxes: Sequence[Box]

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes", boxes_of(self.boxes))


@dataclass(frozen=True)
class Flat:
    """Coordinate i holds elements start ... stop-1 of the tensor flattened in row-major order.

    ranges: (start, stop) for each coordinate; together they hold every element once.
    shape: of the tensor that is flattened: what all other axes leave, such as the `shape` of the
        parameter whose gradient is cut up.

    The local tensor is the range, or a tensor of `shape` of which only the range counts.
    """

    ranges: Sequence[tuple[int, int]]
    shape: Sequence[int]

    def __post_init__(self) -> None:
        shape = tuple(int(extent) for extent in self.shape)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "ranges", ranges_of(self.ranges, shape))


@dataclass(frozen=True)
class Rows:
    """Which rows of dimension `dim` a coordinate holds stands in the tensor `index`.

    index: name given to `Tracer.index`, in the same micro-batch.
    size: how many rows the whole tensor has; a rank cannot tell.
    """

    dim: int
    index: str
    size: int

    def __post_init__(self) -> None:
        check_name(self.index, "index")


@dataclass(frozen=True)
class Partial:
    """The logical value is the reduction ("sum", "mean" or "max") over the axis."""

    reduction: str = "sum"

    def __post_init__(self) -> None:
        if self.reduction not in ("sum", "mean", "max"):
            raise TraceError(f'Partial("{self.reduction}"): the reductions are sum, mean and max')


@dataclass(frozen=True)
class Only:
    """Held at one coordinate of the axis alone; the other ranks record nothing."""

    coordinate: int


# Placements that cut one dimension by a rule.
DIMENSION_CUTS = (Shard, Zigzag, Segments, Strided)
PLACEMENTS = (Replicate, *DIMENSION_CUTS, Boxes, Flat, Rows, Partial, Only)

Cut = Union[Shard, Zigzag, Segments, Strided]
Placement = Union[Replicate, Cut, Boxes, Flat, Rows, Partial, Only]
Placements = Mapping[str, Placement]
TensorPlacements = Union[Placements, Sequence[Optional[Placements]]]


class OnMesh(dict[str, Placement]):
    """Placements on the axes of another mesh than the default one, by its name.

    `OnMesh("expert", {"ep": Shard(0)})` refers to `trace(meshes={"expert": Mesh({...})})`.
    """

    def __init__(self, mesh: str, placements: Placements) -> None:
        super().__init__(placements)
        self.mesh = mesh


def mesh_name_of(placements: Placements) -> str:
    """Name of the mesh whose axes the placements name; "" is the default one."""
    return placements.mesh if isinstance(placements, OnMesh) else ""


def touches(placement: Placement, other: Placement) -> bool:
    """Whether it matters which of the two is applied first: whether they cut the same dimension.

    Flat ranges do not count, they apply last in any order. Dimensions are counted from 0.
    """
    one, two = _dimension(placement), _dimension(other)
    if one is None or two is None:
        return False
    return one == two or "all" in (one, two)


def _dimension(placement: Placement) -> int | str | None:
    if isinstance(placement, Boxes):
        return "all"
    if isinstance(placement, (*DIMENSION_CUTS, Rows)):
        return placement.dim
    return None
