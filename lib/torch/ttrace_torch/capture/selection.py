"""What is recorded: kinds of tensor, modules, steps and ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ttrace_torch.base.names import matching
from ttrace_torch.base.process import say
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Only, Replicate
from ttrace_torch.layout.placing import Placed

KINDS = (
    "param",
    "buffer",
    "optimizer_state",
    "input",
    "output",
    "loss",
    "grad_output",
    "param_grad",
    "main_grad",
    "grad_norm",
    "param_after_step",
    "buffer_after_step",
    "scalar",
    "index",
)


@dataclass(frozen=True)
class Selection:
    """The kinds to record, and the canonical names of the modules and parameters.

    patterns: the globs that chose the modules; None if all modules are recorded.
    """

    kinds: tuple[str, ...]
    modules: set[str]
    parameters: set[str]
    patterns: tuple[str, ...] | None = None

    def takes(self, name: str) -> bool:
        """Whether values of this name, which belong to no module, are recorded."""
        return self.patterns is None or any(matching(one, [name]) for one in self.patterns)

    def facts(self) -> dict[str, Any]:
        """The manifest's `run.recorded` without the steps."""
        # A tensor placed by `Rows` cannot be read without its index.
        kinds = [kind for kind in KINDS if kind in self.kinds or (kind == "index" and self.kinds)]
        facts: dict[str, Any] = {"kinds": kinds}
        if self.patterns is not None:
            facts["modules"] = list(self.patterns)
        return facts


class Steps:
    """All steps."""

    def takes(self, number: int) -> bool:
        """Whether step `number`, which begins, is recorded."""
        return True

    def missed(self, finished: set[int]) -> list[int]:
        """The steps that were named and not recorded, as far as they can be listed."""
        return []

    def over(self, last: int) -> bool:
        """Whether no step after `last` is recorded."""
        return False


class TheseSteps(Steps):
    """The steps that the user named."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = numbers

    def takes(self, number: int) -> bool:
        """Whether the user named step `number`."""
        return number in self._numbers

    def missed(self, finished: set[int]) -> list[int]:
        """The named steps that were not recorded; none where the numbers have no end."""
        try:
            return [number for number in self._numbers.listed() if number not in finished]
        except (AttributeError, TraceError):
            return []

    def over(self, last: int) -> bool:
        """Whether the user named no step after `last`."""
        return all(part.stop <= last + 1 for part in self._numbers.ranges)


class FirstSteps(Steps):
    """Only the first steps, one if nobody said how many: a forgotten environment variable must not
    fill a disk."""

    def __init__(self, out: str, announces: bool = True, count: int = 1) -> None:
        self._out = out
        self._count = count
        self._taken: list[int] = []
        self.announces = announces

    def takes(self, number: int) -> bool:
        """Whether step `number` is one of the first. Announces it once."""
        if len(self._taken) < self._count and number not in self._taken:
            self._taken.append(number)
            if self.announces:
                say(
                    f"records step {number} alone into {self._out}, since no steps were named; "
                    "TTRACE_STEPS or steps= names others, such as 0,10-12"
                )
        return number in self._taken

    def over(self, last: int) -> bool:
        """Whether the last of them has begun."""
        return len(self._taken) == self._count


class WritingRanks:
    """The ranks that record. The others write files without tensors.

    So the manifest lists every rank, and says of every tensor where it was recorded.
    """

    def __init__(self, ranks: Iterable[int] | None, meshes: Iterable[Mesh] = ()) -> None:
        """ranks: None for all ranks.

        Throws TraceError for a rank that is in none of the meshes, and for ranks that are no
        product of coordinates of one, which no manifest could describe.
        """
        self._ranks = None if ranks is None else frozenset(ranks)
        if self._ranks is None:
            return
        known: set[int] = set()
        for mesh in meshes:
            known.update(mesh.ranks)
            _check_block(self._ranks, mesh)
        if not self._ranks or not self._ranks <= known:
            strange = sorted(self._ranks - known) or "no rank at all"
            raise TraceError(f"ranks: {strange} of {len(known)} rank(s) of the meshes; name others")

    def takes(self, rank: int) -> bool:
        """Whether `rank` records."""
        return self._ranks is None or rank in self._ranks

    def check(self, placed: Placed, coordinate: Mapping[str, int], what: str) -> None:
        """Throws TraceError if other shards or terms of the tensor are on ranks that do not
        record."""
        if self._ranks is None:
            return
        for axis, placement in placed.placements.items():
            if isinstance(placement, (Replicate, Only)):
                continue
            for number in range(placed.grid.axes[axis]):
                rank = placed.grid.rank_at({**coordinate, axis: number})
                if rank not in self._ranks:
                    raise TraceError(
                        f"{what} is {placement} over axis {axis}, of which rank {rank} holds a "
                        "part and does not record it; ranks= takes an axis that cuts whole"
                    )


def _check_block(ranks: frozenset[int], mesh: Mesh) -> None:
    places = [mesh.coordinate(rank) for rank in sorted(ranks) if mesh.holds(rank)]
    sides = [{place[axis] for place in places} for axis in mesh.axes]
    if places and prod(map(len, sides)) != len(places):
        raise TraceError(
            f"ranks: {sorted(ranks)} are no block of {mesh}: give all combinations of some "
            "coordinates of each axis"
        )
