"""The interface of a placement kind, and the base classes of kinds that cut alike.

A kind that lacks one of the abstract methods cannot be constructed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.ranges import Ranges, appended, total


class Placement(ABC):
    """How a tensor lies along one mesh axis. A frozen dataclass that checks its own numbers.

    Methods take `ranks`, the size of the axis, and `index`, a rank's coordinate on it. Extents are
    those of what the earlier axes left.
    """

    # The member that tells this kind from others in JSON.
    json_member: ClassVar[str]
    # Whether the ranks of the axis hold different elements.
    cuts: ClassVar[bool] = True

    @abstractmethod
    def to_json(self) -> dict[str, Any] | None:
        """The manifest's form; None if the manifest leaves the axis out."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Placement | None:
        """The inverse of `to_json`; None for a kind that the collector never reads back."""
        return None

    @abstractmethod
    def local_ranges(self, extents: Sequence[int], ranks: int, index: int) -> list[Ranges]:
        """The indices that a rank holds, for each dimension, in local order.

        Throws TraceError if the numbers of the placement contradict `extents`.
        """

    @abstractmethod
    def whole_extents(self, local: Sequence[int], ranks: int) -> list[int]:
        """Extents of the tensor that leaves `local` to a rank; even shards if nothing says more."""

    def local_extents(self, extents: Sequence[int], ranks: int, index: int) -> list[int]:
        """Extents of what a rank holds. Throws as `local_ranges`."""
        return [total(ranges) for ranges in self.local_ranges(extents, ranks, index)]

    def normalised(self, ndim: int, ranks: int, axis: str, what: str) -> Placement:
        """The placement with its dimension counted from 0.

        Throws TraceError if it does not fit a tensor of `ndim` dimensions or the axis.
        """
        return self

    def holds(self, index: int) -> bool:
        """Whether a rank holds anything of the tensor, be it an empty shard."""
        return True

    @property
    def cut_dim(self) -> int | Literal["all"] | None:
        """The dimension that is cut; None if no dimension of the tensor is."""
        return None

    @property
    def declared_extent(self) -> tuple[int, int] | None:
        """(dimension, its extent in the whole tensor), if the placement gives it."""
        return None


class Uncut(Placement):
    """A kind under which a rank that holds the tensor has all its elements."""

    cuts = False

    def local_ranges(self, extents: Sequence[int], ranks: int, index: int) -> list[Ranges]:
        return whole_ranges(extents)

    def whole_extents(self, local: Sequence[int], ranks: int) -> list[int]:
        return list(local)


class DimPlacement(Placement):
    """A kind that concerns one dimension, `dim`, which may be negative until normalised."""

    dim: int

    def normalised(self, ndim: int, ranks: int, axis: str, what: str) -> Placement:
        if not -ndim <= self.dim < ndim:
            raise TraceError(
                f"{what}: cut along dimension {self.dim} over {axis}, but the tensor has "
                f"{ndim} dimension(s); where a module has several tensors, give its layout as "
                "a list, one placement for each"
            )
        found: Placement = replace(self, dim=self.dim % ndim)  # type: ignore[type-var]
        return found

    @property
    def cut_dim(self) -> int:
        return self.dim

    @property
    def declared_extent(self) -> tuple[int, int] | None:
        size: int | None = getattr(self, "size", None)
        return None if size is None else (self.dim, size)


class DimCut(DimPlacement):
    """A kind that cuts dimension `dim` by a rule, see `cut`."""

    @abstractmethod
    def cut(self, extent: int, ranks: int, index: int) -> Ranges:
        """The indices of `dim`, of `extent` elements, that a rank holds.

        Throws TraceError if the numbers of the placement contradict `extent`.
        """

    def local_ranges(self, extents: Sequence[int], ranks: int, index: int) -> list[Ranges]:
        found = whole_ranges(extents)
        found[self.dim] = self.cut(extents[self.dim], ranks, index)
        return found

    def whole_extents(self, local: Sequence[int], ranks: int) -> list[int]:
        whole = list(local)
        whole[self.dim] = self.whole_extent(whole[self.dim], ranks)
        return whole

    def whole_extent(self, local: int, ranks: int) -> int:
        """Extent of `dim` in the tensor that leaves `local` to a rank."""
        return local * ranks


def whole_ranges(extents: Sequence[int]) -> list[Ranges]:
    """All indices of every dimension."""
    return [appended([], 0, extent) for extent in extents]


def check_count(count: int, noun: str, ranks: int, axis: str, what: str) -> None:
    """Throws TraceError if a placement gives `count` things for an axis of `ranks` ranks."""
    if count != ranks:
        raise TraceError(
            f"{what}: {count} {noun} for axis {axis}, which has {ranks} coordinates; give "
            "one for each"
        )
