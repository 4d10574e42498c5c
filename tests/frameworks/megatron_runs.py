"""Trainings with Megatron-core, those of a version made when a test first asks for one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import agreement
import grid
import megatron_cases
from megatron_cases import LONG, LONG_OLDER, NEWEST, OLDER, QUICK, ROUTED, SPECIFIED


def _flat(cases):
    return {name: (world, case) for world, group in cases.items() for name, case in group.items()}


def _selected():
    """(version, name of a case) -> number of processes, case."""
    found = {}
    for version in (NEWEST, *OLDER):
        quick, long = (_flat(QUICK), _flat(LONG)) if version == NEWEST else ({}, _flat(LONG_OLDER))
        cases = grid.cases(f"Megatron-core {version}", quick, long)
        found.update({(version, name): case for name, case in cases.items()})
    return found


SELECTED = _selected()
# Number of processes -> name -> case.
FAULTS = grid.cases("Megatron-core's faults", megatron_cases.FAULTS, megatron_cases.LONG_FAULTS)
# Four layers are for virtual stages, which these models are not cut into.
SHALLOW = {"half": 2, "experts": 2, "flipping": 2}
MODELS = {name.split("_")[0] for version, name in SELECTED if version == NEWEST}


def selected(*names):
    """Those of the cases with the newest version that run."""
    return [name for name in names if (NEWEST, name) in SELECTED]


@dataclass
class Runs:
    """The trainings of one session, in `folder`; `python` has the frameworks."""

    python: str
    folder: Path

    def __post_init__(self):
        self._trained = {}

    def reference(self, version, name):
        """The one-process trace of the model of case `name`."""
        return self.train(version) / f"{_model(name)}.h5"

    def trace(self, version, name):
        """The trace of case `name`, or of a fault."""
        return self.train(version) / name

    def noise(self, version, name):
        """The perturbed one-process traces of the model of case `name`."""
        reference = self.reference(version, name)
        return [
            reference.with_name(megatron_cases.noise_of(_model(name), seed) + ".h5")
            for seed in _seeds(version)
        ]

    def train(self, version):
        """The folder of all trainings, on any number of processes: importing Megatron-core takes as
        long as those on one of these numbers."""
        if version not in self._trained:
            older = Path(self.python).parents[1] / "older" / f"megatron-core=={version}"
            self._trained[version] = agreement.train_worlds(
                self.python,
                "launch_megatron.py",
                {world: _group(version, world) for world in _worlds(version)},
                self.folder / version,
                [] if version == NEWEST else [older],
            )
        return self._trained[version]


def _worlds(version):
    """How many processes each launch of that version has."""
    found = {1} | {ranks for (chosen, _), (ranks, _) in SELECTED.items() if chosen == version}
    return sorted(
        found.union(FAULTS, ROUTED, megatron_cases.REFUSED) if version == NEWEST else found
    )


def _group(version, world):
    """Name -> case, of all that runs with that version on that many processes."""
    names = {name for chosen, name in SELECTED if chosen == version}
    refused = megatron_cases.REFUSED.get(world, {}) if version == NEWEST else {}
    refused = {name: {**case, "refused": True} for name, case in refused.items()}
    if world == 1:
        models = {_model(name) for name in names}
        found = {}
        if version == NEWEST:
            models |= {_model(name) for name in _flat(ROUTED)}
            found = {name: {**case, "specified": True} for name, case in SPECIFIED.items()}
        references = megatron_cases.references(sorted(models), _seeds(version))
        routed = {_model(name) for name in _flat(ROUTED)}
        short = {
            name: agreement.first_step(case)
            for name, case in references.items()
            if _model(name) in routed
        }
        return _shallow({**references, **short, **found, **refused})
    found = {name: SELECTED[version, name] for name in sorted(names)}
    cases = {name: case for name, (ranks, case) in found.items() if ranks == world}
    if version == NEWEST:
        more = {**FAULTS.get(world, {}), **ROUTED.get(world, {})}
        cases.update({name: agreement.first_step(case) for name, case in more.items()})
    return _shallow({**cases, **refused})


def _shallow(cases):
    return {
        name: {**case, "config": {**case["config"], "num_layers": SHALLOW[_model(name)]}}
        if _model(name) in SHALLOW
        else case
        for name, case in cases.items()
    }


def _model(name):
    return name.split("_")[0]


def _seeds(version):
    return grid.SEEDS if version == NEWEST else (1,)
