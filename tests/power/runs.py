"""What the study trains: models, their healthy runs in several layouts, and faulty ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Case = dict[str, Any]  # what a launcher reads
SEEDS = (1, 2, 3)  # of the noise runs


@dataclass(frozen=True)
class Run:
    """A candidate.

    axes: what its layout is made of, by the names of mesh axes and mechanisms.
    """

    name: str
    ranks: int
    axes: frozenset[str]
    case: Case


@dataclass(frozen=True)
class Fault:
    """A run that is wrong, what has to be found first, and what is wrong in it for certain."""

    run: Run
    first: tuple[str, ...]  # globs over "kind name"
    wrong: tuple[str, ...]  # globs over "kind name", for the picture


@dataclass(frozen=True)
class Model:
    """What is trained: a reference on one process, its noise runs, and the candidates."""

    name: str
    precision: str
    reference: Case
    runs: tuple[Run, ...]
    faults: tuple[Fault, ...] = ()
    # Names of the runs into which faults of all sizes are put.
    sampled: tuple[str, ...] = ()
    # Names of the runs that lose their keys one by one, and how many keys are passed over.
    emptied: dict[str, int] = field(default_factory=dict)

    def cases(self, ranks: int) -> dict[str, Case]:
        """All that is trained on so many processes, by the name of the trace."""
        runs = [*self.runs, *(fault.run for fault in self.faults)]
        found = {self.trace(run.name): run.case for run in runs if run.ranks == ranks}
        if ranks == 1:
            found[self.trace("reference")] = self.reference
            for seed in SEEDS:
                found[self.trace(f"noise{seed}")] = {**self.reference, "noise": seed}
        return found

    def trace(self, run: str) -> str:
        return f"{self.name}__{run}"

    @property
    def worlds(self) -> set[int]:
        runs = [*self.runs, *(fault.run for fault in self.faults)]
        return {1, *(run.ranks for run in runs)}


@dataclass(frozen=True)
class Family:
    """Models that one launcher trains; `batch` of them in one go."""

    name: str
    launcher: Path
    models: tuple[Model, ...]
    batch: int = 2
