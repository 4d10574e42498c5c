"""Small training jobs that are traced, and what may lie in their folder when a call has failed.

A job trains and never looks at its trace, as real ones do. `intended` runs it without a fault and
keeps every state that a reader may find its files in: after each commit, and closed.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

import ttrace_torch as tt

STEPS = 2
# When a specification was made.
CREATED = re.compile(rb'"created": ?"[^"]*"')

# Called with the tracer after each step; a run that is measured waits there for its commit.
AfterStep = Callable[[Any], None]


class Job(NamedTuple):
    """prepare: fills the folder before any call may fail. run: trains, and gives the losses."""

    prepare: Callable[[Path], None]
    run: Callable[[Path, AfterStep], list[float]]


def train(folder: Path, after_step: AfterStep, path: str, **options: Any) -> list[float]:
    """Trains for two steps, the second of which throws once, and closes the tracer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = {"run": {"id": "one"}, **options}
    tracer = tt.trace(model, optimizer, out=folder / path, **options)
    losses = []
    for step in range(STEPS):
        if step == 1:
            with suppress(ZeroDivisionError), tracer.step(step):
                tracer.scalar("dropped", torch.ones(2000))
                raise ZeroDivisionError
        with tracer.step(step):
            loss = tracer.loss(model(torch.full((2, 3), 1.0 + step)).square().mean())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        after_step(tracer)
    tracer.close()
    return losses


def nothing(folder: Path) -> None:
    """The folder of a job that runs for the first time."""


def one_of_two(folder: Path) -> None:
    """The other rank's file, closed, so that the rank that runs now writes the manifest."""
    train(folder, lambda tracer: None, "run", mesh=tt.Mesh({"dp": 2}), rank=1)


def folder_job(folder: Path, after_step: AfterStep) -> list[float]:
    return train(folder, after_step, "run")


def packed_job(folder: Path, after_step: AfterStep) -> list[float]:
    return train(folder, after_step, "run", compress=4)


def file_job(folder: Path, after_step: AfterStep) -> list[float]:
    """A single file, and a specification beside it."""
    return train(folder, after_step, "run.h5", specification=folder / "specification.json")


def second_job(folder: Path, after_step: AfterStep) -> list[float]:
    return train(folder, after_step, "run", mesh=tt.Mesh({"dp": 2}), rank=0)


JOBS = {
    "folder": Job(nothing, folder_job),
    "packed": Job(nothing, packed_job),
    "file": Job(nothing, file_job),
    "second": Job(one_of_two, second_job),
}


class Intended(NamedTuple):
    """losses: of the training. states: file name -> the contents that it may have, the last of
    which is that of a whole run."""

    losses: list[float]
    states: dict[str, list[bytes]]


def files_of(folder: Path) -> dict[str, bytes]:
    """Path below the folder -> content, of what a reader takes for a trace or a specification."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".h5", ".json"):
            content = path.read_bytes()
            found[str(path.relative_to(folder))] = CREATED.sub(b"", content)
    return found


def intended(job: Job, folder: Path) -> Intended:
    """Runs a job whose calls all succeed."""
    states: dict[str, list[bytes]] = {}

    def keep(tracer: Any = None) -> None:
        if tracer is not None:
            wait_for(tracer)
        for name, content in files_of(folder).items():
            known = states.setdefault(name, [])
            if not known or known[-1] != content:
                known.append(content)

    folder.mkdir()
    job.prepare(folder)
    losses = job.run(folder, keep)
    keep()
    shutil.rmtree(folder)
    return Intended(losses, states)


def wait_for(tracer: Any) -> None:
    """Until the writing thread has done what it has been given so far."""
    writer = tracer._output._writer
    done = threading.Event()
    writer.submit("waiting", done.set)
    while not done.wait(0.01) and tracer.failed is None:
        pass


class Run(NamedTuple):
    """A run under a fault. losses: None if the job has ended. finished: how many steps were in
    their file before anything failed. said: its stderr."""

    losses: list[float] | None
    finished: int
    said: str


def what_is_wrong(folder: Path, expected: Intended, run: Run) -> str:
    """Why the run of a job under a fault is not what it should be; empty if it is."""
    if run.losses != expected.losses:
        return f"the job trained to {run.losses}, not to {expected.losses}"
    found = files_of(folder)
    for name, content in found.items():
        if name not in expected.states:
            return f"{name} is no file of this job"
        if content not in expected.states[name]:
            return f"{name} has other bytes than intended"
    whole = {name: states[-1] for name, states in expected.states.items()}
    for name, states in expected.states.items():
        if "rank_00000" in name or name == "run.h5":
            steps = states.index(found[name]) + 1 if name in found else 0
            if steps < run.finished:
                return f"{name} has {steps} of {run.finished} finished steps"
    if found != whole and "ttrace: " not in run.said:
        lacking = [name for name in whole if found.get(name) != whole[name]]
        return f"{', '.join(lacking)} is not whole, and nothing was said"
    manifests = [name for name in found if name.endswith("manifest.json")]
    if manifests and found != whole:
        return "there is a manifest of a run that is not whole"
    return ""
