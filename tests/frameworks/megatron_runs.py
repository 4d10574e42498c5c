"""Trainings with Megatron-core, each group of them made when a test first asks for it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import grid
import megatron_cases
from megatron_cases import FAULTS, LONG, LONG_OLDER, NEWEST, OLDER, OLDEST, QUICK, QUICK_OLDER
from support.ttrace_cli import REPOSITORY, run_ttrace

HERE = Path(__file__).parent


def _flat(cases):
    return {name: (world, case) for world, group in cases.items() for name, case in group.items()}


def _selected():
    """(version, name of a case) -> number of processes, case."""
    found = {}
    for version in (NEWEST, *OLDER, *OLDEST):
        quick, long = _flat(QUICK_OLDER), _flat(LONG_OLDER)
        if version == NEWEST:
            quick, long = _flat(QUICK), _flat(LONG)
        if version in OLDEST:
            quick, long = {}, {**quick, **long}
        cases = grid.cases(f"Megatron-core {version}", quick, long)
        found.update({(version, name): case for name, case in cases.items()})
    return found


SELECTED = _selected()


@dataclass
class Runs:
    """The trainings of one session, in `folder`; `python` has the frameworks."""

    python: str
    folder: Path

    def __post_init__(self):
        self._trained = {}

    def reference(self, version, name):
        """The one-process trace of the model of case `name`."""
        return self.train(version, 1) / f"{_model(name)}.h5"

    def trace(self, version, name):
        """The trace of case `name`, or of a fault."""
        world, _ = SELECTED.get((version, name)) or _flat(FAULTS)[name]
        return self.train(version, world) / name

    def compare(self, version, name):
        """`ttrace compare` of case `name` with its reference, noise runs given."""
        reference = self.reference(version, name)
        noise = [
            reference.with_name(megatron_cases.noise_of(_model(name), seed) + ".h5")
            for seed in _seeds(version)
        ]
        return run_ttrace("compare", reference, self.trace(version, name), "--noise", *noise)

    def seconds(self, version, name):
        """How long case `name` took, without what all cases share."""
        world, _ = SELECTED[version, name]
        told = self.train(version, world) / f"seconds{world}.json"
        return json.loads(told.read_text(encoding="utf-8"))[name]

    def train(self, version, world):
        """The folder of what was trained on `world` processes.

        All cases in one go, because importing the frameworks takes most of the time.
        """
        out = self.folder / version
        out.mkdir(exist_ok=True)
        if (version, world) not in self._trained:
            self._trained[version, world] = self._launch(version, world, out)
        done = self._trained[version, world]
        assert done.returncode == 0, done.stdout + done.stderr
        return out

    def _launch(self, version, world, out):
        path = [str(REPOSITORY / "lib" / "torch")]
        if version != NEWEST:
            older = Path(self.python).parents[1] / "older" / f"megatron-core=={version}"
            path.append(str(older))
        return subprocess.run(
            [self.python, HERE / "launch.py", str(world), json.dumps(_group(version, world)), out],
            capture_output=True,
            text=True,
            timeout=1800,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
        )


def _group(version, world):
    """Name -> case, of all that runs with that version on that many processes."""
    names = {name for chosen, name in SELECTED if chosen == version}
    refused = megatron_cases.REFUSED.get(world, {}) if version == NEWEST else {}
    refused = {name: {**case, "refused": True} for name, case in refused.items()}
    if world == 1:
        models = sorted({_model(name) for name in names})
        return {**megatron_cases.references(models, _seeds(version)), **refused}
    found = {name: SELECTED[version, name] for name in sorted(names)}
    cases = {name: case for name, (ranks, case) in found.items() if ranks == world}
    return {**cases, **(FAULTS.get(world, {}) if version == NEWEST else {}), **refused}


def _model(name):
    return name.split("_")[0]


def _seeds(version):
    return (1, 2, 3) if version == NEWEST else (1,)
