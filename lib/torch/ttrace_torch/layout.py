"""The words a user describes layouts with: mesh, placements, and which module has which.

Plain values. What a tensor looks like under a layout is worked out in `shapes`, which module gets
which layout in `assignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Optional, Union

from ttrace_torch.errors import TraceError


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


Placement = Union[Replicate, Shard, Partial, Only]
Placements = Mapping[str, Placement]
TensorPlacements = Union[Placements, Sequence[Optional[Placements]]]


class Mesh:
    """The ranks of the run as a grid: axes in order, row-major, the last one runs fastest.

    `Mesh({"dp": 2, "tp": 4})` has 8 ranks; rank 5 is dp 1, tp 1. `Mesh({})` is a single rank.
    """

    def __init__(self, axes: Mapping[str, int] | Iterable[tuple[str, int]] | None = None):
        pairs = list(axes.items() if isinstance(axes, Mapping) else axes or ())
        for name, size in pairs:
            if not name or not isinstance(name, str):
                raise TraceError(f"mesh axis {name!r}: an axis needs a name")
            if not isinstance(size, int) or size < 1:
                raise TraceError(f"mesh axis {name}: size {size!r} is not a positive integer")
        self.axes: dict[str, int] = dict(pairs)
        if len(self.axes) != len(pairs):
            raise TraceError(f"mesh {pairs}: an axis is named twice")

    @property
    def size(self) -> int:
        """Number of ranks."""
        total = 1
        for extent in self.axes.values():
            total *= extent
        return total

    def coordinate(self, rank: int) -> dict[str, int]:
        """Axis -> coordinate of `rank`. Throws where the mesh has no such rank."""
        if not 0 <= rank < self.size:
            raise TraceError(
                f"rank {rank} is outside the mesh {self.axes} of {self.size} rank(s); "
                "give trace(mesh=Mesh({...})) the axes of the whole run"
            )
        found = {}
        for name, extent in reversed(self.axes.items()):
            rank, found[name] = divmod(rank, extent)
        return {name: found[name] for name in self.axes}

    def coordinates(self) -> list[dict[str, int]]:
        """The coordinates of all ranks, in the order of the ranks."""
        ranges = [range(extent) for extent in self.axes.values()]
        return [dict(zip(self.axes, combination)) for combination in product(*ranges)]

    def to_json(self) -> dict[str, Any]:
        """The mesh as the manifest's `meshes` has it."""
        return {"axes": [{"name": name, "size": size} for name, size in self.axes.items()]}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Mesh:
        """The inverse of `to_json`."""
        return Mesh([(axis["name"], axis["size"]) for axis in value["axes"]])

    def __repr__(self) -> str:
        return f"Mesh({self.axes})"


@dataclass(frozen=True)
class Layout:
    """How the tensors of the modules that `pattern` matches lie on the mesh.

    pattern: glob over canonical module names ("(model)" is the root; `*` matches dots too).
    input, output, grad_output: axis -> placement for all tensors of that kind, or a list with one
        such dictionary (or None) per tensor. What is not given is replicated; `grad_output`
        defaults to the output's placement, its partial axes replicated.
    params, param_grads, main_grads: glob over the module's own parameter names -> axis ->
        placement. The two gradients default to `params`; a parameter after the step lies as before.

    Where several layouts match a module, later ones override earlier ones, field by field. A tensor
    that is a DTensor tells its own placement on the axes of its device mesh and overrides this.
    """

    pattern: str
    input: TensorPlacements | None = None
    output: TensorPlacements | None = None
    grad_output: TensorPlacements | None = None
    params: Mapping[str, Placements] = field(default_factory=dict)
    param_grads: Mapping[str, Placements] = field(default_factory=dict)
    main_grads: Mapping[str, Placements] = field(default_factory=dict)

    def all_placements(self) -> list[Placements]:
        """Every axis -> placement mapping this layout names, for checking."""
        found: list[Placements] = []
        for given in (self.input, self.output, self.grad_output):
            if isinstance(given, Mapping):
                found.append(given)
            elif given is not None:
                found.extend(one for one in given if one is not None)
        for table in (self.params, self.param_grads, self.main_grads):
            found.extend(table.values())
        return found
