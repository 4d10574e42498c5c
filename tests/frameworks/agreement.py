"""What tests of all frameworks share: trainings in processes of their own, and what is checked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import grid
import h5py
from support.python_runs import run_python
from support.text_report import answer
from support.ttrace_cli import DIVERGED, MATCH, REPOSITORY, run_ttrace

HERE = Path(__file__).parent
FIRST_STEP = ("--step", "0")


def first_step(case):
    """The case, of which the first step alone is recorded: that shows a fault, and what each
    recorded tensor costs is most of what a training takes."""
    return {**case, "recorded": "0"}


def train(python, launcher, world, cases, out, path=(), variables=None):
    """Trains all the cases in one go: importing the framework takes most of the time.

    launcher: script of this folder. cases: name -> case. path: more folders to import from.
    variables: of the environment, in addition.
    """
    return train_worlds(python, launcher, {world: cases}, out, path, variables)


def train_worlds(python, launcher, worlds, out, path=(), variables=None):
    """The same for several numbers of processes; worlds: number -> cases."""
    out.mkdir(exist_ok=True)
    path = os.pathsep.join([str(REPOSITORY / "lib" / "torch"), *(str(folder) for folder in path)])
    words = [word for world, cases in worlds.items() for word in (str(world), json.dumps(cases))]
    done = run_python(
        [HERE / launcher, *words, out],
        python=python,
        timeout=1800,
        environment={**(variables or {}), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def check_agreement(case, trace, reference, noise):
    """The trace of `case` is clean and matches the reference, and neither has what the other lacks.

    Adds the case to the table.
    """
    linted = run_ttrace("lint", trace)
    assert linted.returncode == MATCH and linted.stdout.startswith("CLEAN"), linted.stdout
    compared = run_ttrace("compare", reference, trace, "--noise", *noise)
    grid.add_row(case, trace, compared.returncode, answer(compared.stdout))
    assert compared.returncode == MATCH, compared.stdout + compared.stderr
    assert compared.stdout.startswith("MATCH"), compared.stdout
    assert grid.keys(trace) == grid.keys(reference)


def divergence(trace, reference, noise, first):
    """The report on a trace that is well formed and first diverges at `first`, in its first step:
    of faulty runs no other is recorded."""
    assert run_ttrace("lint", trace).returncode == MATCH
    done = run_ttrace("compare", reference, trace, *FIRST_STEP, "--noise", *noise)
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert f"first at {first} " in done.stdout
    return done.stdout


def entry_of(trace, kind, name, microbatch=None):
    """The manifest's entry of a tensor of the first step."""
    (found,) = [
        entry
        for entry in grid.manifest(trace)["tensors"]
        if (entry["kind"], entry["name"], entry["step"], entry.get("microbatch"))
        == (kind, name, 0, microbatch)
    ]
    return found


def merged_values(trace, out, *arguments):
    """Name -> bytes of all tensors that `ttrace merge`, so told, makes whole in `out`."""
    done = run_ttrace("merge", trace, "-o", out, *arguments)
    assert done.returncode == MATCH, done.stdout + done.stderr
    found = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset) and name not in ("manifest", "ranges"):
            found[name] = item[()].tobytes()

    with h5py.File(out, "r") as file:
        file.visititems(keep)
    return found


def told_to_the_optimizer(trace):
    """(step, parameter) -> what the optimizer was told of it."""
    return {
        (entry["step"], parameter): {k: v for k, v in entry.items() if k != "params"}
        for entry in grid.manifest(trace)["optimizer"]
        for parameter in entry["params"]
    }


def added_lines(script):
    """The lines that the user of a script adds, each of which ends in `# tt`."""
    code = (HERE / script).read_text(encoding="utf-8").split('"""', 2)[2].splitlines()
    added = [line for line in code if line.endswith("# tt")]
    assert 0 < len(added) < 10
    assert added == [line for line in code if "trace" in line or "tt." in line]
    return added
