"""A mesh: the ranks of a run as a grid with named axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ttrace_torch.errors import TraceError


class Mesh:
    """A grid of ranks with named axes, row-major: the last axis runs fastest.

    `Mesh({"dp": 2, "tp": 4})` has 8 ranks; rank 5 is dp 1, tp 1. `Mesh({})` is a single rank.

    ranks: the rank at each coordinate, row-major; by default 0, 1, 2, ...
    """

    def __init__(
        self,
        axes: Mapping[str, int] | Iterable[tuple[str, int]] | None = None,
        ranks: Sequence[int] | None = None,
    ) -> None:
        pairs = list(axes.items() if isinstance(axes, Mapping) else axes or ())
        for name, size in pairs:
            if not name or not isinstance(name, str):
                raise TraceError(f"mesh axis {name!r}: an axis needs a name")
            if not isinstance(size, int) or size < 1:
                raise TraceError(f"mesh axis {name}: size {size!r} is not a positive integer")
        self.axes: dict[str, int] = dict(pairs)
        if len(self.axes) != len(pairs):
            raise TraceError(f"mesh {pairs}: an axis is named twice")
        self.size = prod(self.axes.values())
        self.ranks = tuple(range(self.size) if ranks is None else map(int, ranks))
        if len(self.ranks) != self.size or len(set(self.ranks)) != self.size:
            raise TraceError(
                f"mesh {self.axes}: {len(self.ranks)} ranks, {len(set(self.ranks))} different "
                f"ones, for {self.size} coordinates; give each coordinate a rank of its own"
            )
        self._places = {rank: place for place, rank in enumerate(self.ranks)}

    @property
    def row_major(self) -> bool:
        """Whether the ranks are 0, 1, 2, ... in the order of the coordinates."""
        return self.ranks == tuple(range(self.size))

    def holds(self, rank: int) -> bool:
        """Whether the mesh has `rank`."""
        return rank in self._places

    def coordinate(self, rank: int) -> dict[str, int]:
        """Axis -> coordinate of `rank`. Throws TraceError if the mesh has no such rank."""
        if rank not in self._places:
            raise TraceError(
                f"rank {rank} is outside the mesh {self.axes} of {self.size} rank(s); "
                "give trace(mesh=Mesh({...})) the axes of the whole run"
            )
        place = self._places[rank]
        found = {}
        for name, extent in reversed(self.axes.items()):
            place, found[name] = divmod(place, extent)
        return {name: found[name] for name in self.axes}

    def coordinates(self) -> list[dict[str, int]]:
        """All coordinates, in the order of `ranks`."""
        ranges = [range(extent) for extent in self.axes.values()]
        return [dict(zip(self.axes, combination)) for combination in product(*ranges)]

    def rank_at(self, where: Mapping[str, int]) -> int:
        """The rank at a coordinate. `where` has every axis."""
        place = 0
        for name, extent in self.axes.items():
            place = place * extent + where[name]
        return self.ranks[place]

    def reordered(self, axes: Sequence[str]) -> Mesh:
        """The same grid with its axes in another order."""
        places = {
            tuple(where[axis] for axis in axes): rank
            for where, rank in zip(self.coordinates(), self.ranks)
        }
        return Mesh([(a, self.axes[a]) for a in axes], [places[key] for key in sorted(places)])

    def to_json(self) -> dict[str, Any]:
        """The form of the manifest's `meshes`."""
        value: dict[str, Any] = {
            "axes": [{"name": name, "size": size} for name, size in self.axes.items()]
        }
        if not self.row_major:
            value["ranks"] = list(self.ranks)
        return value

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Mesh:
        """The inverse of `to_json`."""
        ranks = value.get("ranks", "row-major")
        axes = [(axis["name"], axis["size"]) for axis in value["axes"]]
        return Mesh(axes, None if ranks == "row-major" else ranks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mesh):
            return NotImplemented
        return list(self.axes.items()) == list(other.axes.items()) and self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash((tuple(self.axes.items()), self.ranks))

    def __repr__(self) -> str:
        return f"Mesh({self.axes})" if self.row_major else f"Mesh({self.axes}, {list(self.ranks)})"
