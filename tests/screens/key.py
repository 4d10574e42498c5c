"""What is right about a screen: the phases, axes, ranks and places of each fault of its run.

From `gallery/expected.py` and the mechanisms of the gallery, both fixed before anything was
measured; ranks from the values that the ranks recorded, against those of the same layout without
the fault. No report is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gallery.expected import EXPECTED, module_of
from power.editing import dataset_of

from screens.faults import Fault

# How an answer names the part of a step that a kind belongs to.
PHASES = {
    "param": "parameters",
    "input": "forward",
    "output": "forward",
    "scalar": "forward",
    "loss": "loss",
    "grad_output": "backward",
    "grad_input": "backward",
    "param_grad": "backward",
    "main_grad": "gradient synchronisation",
    "grad_norm": "gradient norm",
    "param_after_step": "optimizer",
}
INPUT_DATA = "input data"

# The axes of the mesh that each mechanism is about.
AXES = {
    "P1": "tp", "P2": "tp", "P3": "cp dp", "P4": "dp", "P5": "pp dp", "P6": "tp", "P7": "tp",
    "P8": "tp", "P9": "dp", "P10": "pp", "P11": "tp", "P12": "tp", "P13": "cp", "P14": "tp cp",
    "G1": "tp", "G2": "tp", "G3": "tp", "G4": "tp", "G5": "ep tp", "G6": "pp", "G7": "dp ep edp",
    "G8": "dp", "G9": "dp", "G10": "dp ep edp", "G11": "pp", "G12": "cp", "G13": "tp", "G14": "tp",
    "G15": "dp", "G16": "dp",
}  # fmt: skip

# Where the mistake itself is, where that is another place than the tensors that are wrong first.
CULPRITS = {
    "P2": ("layers.*",),
    "P5": ("head*",),
    "P8": ("layers.*.fp8",),
    "P13": ("layers.*.attn.core",),
    "G1": ("layers.*.mlp", "layers.*.mlp.experts*"),
    "G2": ("layers.1.mlp.fc1*",),
    "G5": ("layers.*.mlp.experts*", "layers.*.mlp"),
    "G8": ("criterion",),
    "G12": ("labels", "(model)", "criterion"),
    "G13": ("layers.*.drop2", "layers.*.drop1"),
}


@dataclass(frozen=True)
class Right:
    """ranks: sets of which one has to be named, if ranks are. places: globs. of_ranks: how many the
    run has."""

    phases: tuple[str, ...]
    axes: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]
    places: tuple[str, ...]
    of_ranks: int

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Right:
        ranks = tuple(tuple(some) for some in told["ranks"])
        several = (tuple(told[name]) for name in ("phases", "axes"))
        return cls(*several, ranks, tuple(told["places"]), told["of_ranks"])

    def covers(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.places)


@dataclass(frozen=True)
class Changed:
    """Which ranks' values differ from those of a run without the fault."""

    ranks: dict[tuple[str, str], frozenset[int]]  # by kind and name
    names: tuple[str, ...]  # of all tensors and modules of the run

    @classmethod
    def between(cls, healthy: Path, faulty: Path) -> Changed:
        found: dict[tuple[str, str], set[int]] = {}
        names: set[str] = set()
        for rank, path in enumerate(sorted(faulty.glob("rank_*.h5"))):
            with h5py.File(path) as file, h5py.File(healthy / path.name) as other:
                for entry in json.loads(file["manifest"][()])["tensors"]:
                    kind, name = entry["kind"], entry["name"]
                    names |= {name, *_modules_above(module_of(kind, name))}
                    place = dataset_of(entry)
                    if place in file and not (place in other and _same(file[place], other[place])):
                        found.setdefault((kind, name), set()).add(rank)
        kept = {key: frozenset(ranks) for key, ranks in found.items()}
        return cls(kept, tuple(sorted(names)))

    def of(self, kinds: Iterable[str], right: Right) -> tuple[tuple[int, ...], ...]:
        """The sets of ranks of the tensors that are wrong first, one by one and together."""
        sets = {
            ranks
            for (kind, name), ranks in self.ranks.items()
            if kind in kinds and right.covers(name)
        }
        if sets:
            sets.add(frozenset().union(*sets))
        return tuple(sorted(tuple(sorted(ranks)) for ranks in sets))


def right_of_bug(bug: str, ranks: int) -> tuple[tuple[str, ...], Right]:
    """The kinds that the bug makes wrong first, and what is right about it but which ranks."""
    expected = EXPECTED[bug]
    kinds = (expected.kind, *expected.also)
    phases = {PHASES[kind] for kind in kinds}
    if expected.kind == "input" and "model" in expected.names[0]:
        phases = {INPUT_DATA}
    modules = {module_of(expected.kind, name) for name in expected.names} - {"", "layers"}
    places = (*expected.names, *sorted(modules), *CULPRITS.get(bug, ()))
    return kinds, Right(tuple(sorted(phases)), tuple(AXES[bug].split()), (), places, ranks)


def right_of_fault(fault: Fault) -> tuple[tuple[str, ...], Right]:
    phases = {PHASES[kind] for kind in fault.kinds}
    if fault.kinds == ("input",):
        phases = {INPUT_DATA}
    axes = (fault.axis,) if fault.axis else ()
    return fault.kinds, Right(tuple(sorted(phases)), axes, (), fault.places(), fault.config.ranks)


def _modules_above(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _same(one: h5py.Dataset, other: h5py.Dataset) -> bool:
    return np.asarray(one[()]).tobytes() == np.asarray(other[()]).tobytes()
