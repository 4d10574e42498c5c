"""Runs each traced job once for each call of its input or output, and lets that call fail.

    collector_faults.py FOLDER ERRORS all|sample

Started with the library of `failing_io` preloaded. ERRORS are separated by commas; with FULL all
writes fail from that one on. "all" lets each call fail with each error. The sample has all calls
but reads and writes, of runs of these the first and each 30th; of each family every sixth of them
fails, with the errors in turn. Prints JSON, by job: how many calls it makes, how many runs there
were, the families that failed with their errors, and what was wrong: error, number and family of
the call, path, why, and what the job said.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import failing_io
import torch
from traced_jobs import (
    JOBS,
    Intended,
    Job,
    Run,
    intended,
    wait_for,
    what_is_lost,
    what_is_wrong,
)

FAMILIES = (*failing_io.CHANGES, "read")
# An error: from that write on, none has space.
FULL = "FULL"
# The sample has each so many-th call of a run of reads or writes.
LONG = 30
# Of what is left, each so many-th call of a family fails.
EACH = 6


def run_under(settings: dict[str, str], job: Job, folder: Path) -> Run:
    """Runs the job in a child."""
    result, said = folder.with_suffix(".result"), folder.with_suffix(".said")
    child = os.fork()
    if child == 0:
        try:
            with said.open("w") as stderr:
                os.dup2(stderr.fileno(), 2)
            failing_io.set_in_this_process(settings)
            finished = [0]

            def after_step(tracer: Any) -> None:
                wait_for(tracer)
                finished[0] += tracer.failed is None

            losses = job.run(folder, after_step)
            result.write_bytes(pickle.dumps((losses, finished[0])))
        except BaseException as error:
            print(f"ended by {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    losses, steps = pickle.loads(result.read_bytes()) if result.exists() else (None, 0)
    run = Run(losses, steps, said.read_text())
    for path in (result, said):
        path.unlink(missing_ok=True)
    return run


def calls_of(root: Path, job: Job, expected: Intended) -> list[failing_io.Call]:
    """The calls of a run in which all succeed. Their paths are relative to the job's folder."""
    folder, count = root / "counted", root / "count"
    shutil.copytree(root / "prepared", folder)
    run = run_under(failing_io.variables(folder, calls=FAMILIES, count=count), job, folder)
    problem = what_is_wrong(folder, expected, run)
    assert not problem and run.said.count("\n") == bool(job.over), (problem, run.said)
    found = failing_io.counted(count)
    return [one._replace(path=os.path.relpath(one.path, folder)) for one in found]


def sample(
    calls: list[failing_io.Call], errors: list[str], number: int
) -> list[tuple[failing_io.Call, str]]:
    """Some calls of every family that the job has, each with an error.

    number: the job's place among the jobs. Others fail in each of them, so that families of one
    call fail with every error in some job.
    """
    kept = []
    for before, call in zip([None, *calls], calls, strict=False):
        moves = call.call in ("read", "write") and before is not None
        if not moves or before[1:] != call[1:] or call.number % LONG == 0:
            kept.append(call)
    chosen = []
    for family in FAMILIES:
        own = [call for call in kept if call.call == family]
        first = number % min(EACH, len(own)) if own else 0
        possible = errors_of(family, errors)
        for place, call in enumerate(own[first::EACH], number):
            chosen.append((call, possible[place % len(possible)]))
    return chosen


def errors_of(family: str, errors: list[str]) -> list[str]:
    """The errors that a call of this family fails with."""
    return [error for error in errors if error != FULL or family == "write"]


def settings_for(
    folder: Path, call: failing_io.Call, error: str, calls: list[failing_io.Call]
) -> dict[str, str]:
    """The variables under which a run's call fails."""
    if error != FULL:
        return failing_io.variables(folder, at=call.number, error=error, calls=FAMILIES)
    at = [one.number for one in calls if one.call == "write"].index(call.number) + 1
    return failing_io.variables(folder, at=at, calls=["write"], times=len(calls) + 1000)


def tried(root: Path, number: int, job: Job, errors: list[str], whole: bool) -> dict[str, Any]:
    """What came of one job. number: its place among the jobs. whole: whether all calls fail."""
    (root / "prepared").mkdir(parents=True)
    expected = intended(job, root / "intended")
    job.prepare(root / "prepared")
    calls = calls_of(root, job, expected)
    wrong = []
    if whole:
        chosen = [(call, error) for call in calls for error in errors_of(call.call, errors)]
    else:
        chosen = sample(calls, errors, number)
    for call, error in chosen:
        folder = root / f"at_{call.number}"
        shutil.copytree(root / "prepared", folder)
        settings = settings_for(folder, call, error, calls)
        run = run_under(settings, job, folder)
        why = what_is_wrong(folder, expected, run)
        if error != FULL:  # nothing can be written back then
            why = why or what_is_lost(folder, job, expected, run)
        if why:
            wrong.append([error, *call, why, run.said])
        shutil.rmtree(folder)
    kinds = sorted({(call.call, error) for call, error in chosen})
    return {"calls": len(calls), "runs": len(chosen), "kinds": kinds, "wrong": wrong}


def main() -> None:
    root, errors, extent = sys.argv[1:]
    torch.set_num_threads(1)
    # The collector looks at all objects that the garbage collector knows of in each traced step.
    importlib.import_module("torch._dynamo")  # the first optimizer would
    gc.collect()
    gc.freeze()
    found = {
        name: tried(Path(root, name), number, job, errors.split(","), extent == "all")
        for number, (name, job) in enumerate(JOBS.items())
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
