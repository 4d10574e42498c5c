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
    """prepare: fills the folder before any call may fail. run: trains, and gives the losses.

    over: what stands in the folder: "" for nothing of an earlier run, "same" for a trace that this
        one replaces, "other" for one that stays.
    """

    prepare: Callable[[Path], None]
    run: Callable[[Path, AfterStep], list[float]]
    over: str = ""


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


def same(folder: Path) -> None:
    """A trace of the same kind as that of the job."""
    train(folder, lambda tracer: None, "run", run={"id": "earlier"})


def other(folder: Path) -> None:
    """A trace of another kind."""
    train(folder, lambda tracer: None, "run", run={"id": "earlier"}, perturb=tt.Perturb(1))


def other_file(folder: Path) -> None:
    """A trace of another kind in a single file."""
    train(folder, lambda tracer: None, "run.h5", run={"id": "earlier"}, perturb=tt.Perturb(1))


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
    "folder over the same": Job(same, folder_job, over="same"),
    "folder over another": Job(other, folder_job, over="other"),
    "file over another": Job(other_file, file_job, over="other"),
}


class Intended(NamedTuple):
    """losses: of the training. states: path -> the contents that the file may have. whole: path ->
    content at the end. earlier: the contents of the trace of an earlier run."""

    losses: list[float]
    states: dict[str, list[bytes]]
    whole: dict[str, bytes]
    earlier: list[bytes]


def files_of(folder: Path) -> dict[str, bytes]:
    """Path below the folder -> content, of what a reader takes for a trace or a specification."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".tmp", ".part"):
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
    earlier = list(files_of(folder).values()) if job.over else []
    losses = job.run(folder, keep)
    keep()
    whole = files_of(folder)
    shutil.rmtree(folder)
    return Intended(losses, states, whole, earlier)


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
        if content in expected.earlier:
            stands = name == "run.h5" or name.startswith("run/")
            if stands and "is of an earlier run" not in run.said:
                return f"{name} is of an earlier run, and nothing was said"
        elif content not in expected.states.get(name, []):
            return f"{name} has other bytes than intended"
    lacking = [name for name in expected.whole if found.get(name) != expected.whole[name]]
    if lacking and "ttrace: " not in run.said:
        return f"{', '.join(lacking)} is not whole, and nothing was said"
    if lacking and expected.whole.get("run/manifest.json") in found.values():
        return "there is a manifest of a run that is not whole"
    return ""


def what_is_lost(folder: Path, job: Job, expected: Intended, run: Run) -> str:
    """Which finished step of this run, or what of the earlier trace, is gone; empty if nothing."""
    found = files_of(folder)
    for name in ("run/rank_00000.h5", "run.h5"):
        states = expected.states.get(name, [])
        has = states.index(found[name]) + 1 if found.get(name) in states else 0
        if states and has < run.finished:
            return f"{name} has {has} of {run.finished} finished steps"
        if has and job.over == "same":
            return ""
    gone = [content for content in expected.earlier if content not in found.values()]
    return f"{len(gone)} file(s) of the earlier trace are gone" if gone else ""
