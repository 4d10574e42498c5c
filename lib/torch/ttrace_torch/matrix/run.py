"""Runs a matrix: the reference, then layout after layout, each trained, compared and audited."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.job import Job, read_batches
from ttrace_torch.matrix.judge import FINE, audit, compare, program
from ttrace_torch.matrix.processes import run_ranks
from ttrace_torch.matrix.reference import Reference, default_cache, make_reference
from ttrace_torch.matrix.table import Matrix, Row
from ttrace_torch.matrix.train import train_layout
from ttrace_torch.matrix.words import Word, read_words


@dataclass(frozen=True)
class Settings:
    """How a matrix is run; the arguments of `assert_equivalent` of these names."""

    noise: int = 3
    limit: float = 600.0
    cache: bool | str | Path = True
    out: str | Path | None = None
    most_ranks: int | None = None
    backend: str | None = None

    @property
    def cache_folder(self) -> Path | None:
        if isinstance(self.cache, bool):
            return default_cache() if self.cache else None
        return Path(self.cache).absolute()


def run_matrix(
    job: Job,
    layouts: Iterable[str],
    settings: Settings | None = None,
    told: Callable[[str], None] = lambda line: None,
) -> Matrix:
    """Trains every layout and judges it. Throws MatrixError for arguments that cannot be used, and
    where the job does not run on one process; what befalls a layout stands in its row.

    told: called with a line for each thing that is about to be done.
    """
    settings = settings or Settings()
    _check(job, settings)
    words = read_words(layouts, len(job.batches), settings.most_ranks, os.cpu_count() or 1)
    program()
    largest = max(words, key=lambda word: word.ranks)
    backend = settings.backend or backend_for(largest.ranks)
    if backend == "nccl" and backend_for(largest.ranks) != "nccl":
        raise MatrixError(
            f"backend='nccl': the {largest.ranks} rank(s) of {largest.text!r} need a GPU each, and "
            f"torch sees {torch.cuda.device_count()} here; take a smaller layout, or 'gloo'"
        )
    with folder_of(settings.out) as folder:
        begun = time.monotonic()
        told("the reference: one process")
        cache = settings.cache_folder
        reference = make_reference(job, folder, cache, settings.noise, settings.limit, backend)
        seconds = time.monotonic() - begun
        rows = []
        for word in words:
            told(f"{word.text}: {word.ranks} rank(s)")
            rows.append(_row(job, word, reference, folder, settings, backend))
        return Matrix(rows, notes_on(reference, settings, seconds, backend))


def backend_for(ranks: int) -> str:
    """NCCL where every rank gets a device of its own, else gloo on the CPU."""
    return "nccl" if 0 < ranks <= torch.cuda.device_count() else "gloo"


def _check(job: Job, settings: Settings) -> None:
    given: dict[str, Any] = {"build": job.build, "optimizer": job.optimizer}
    given.update(loss=job.loss, parallelize=job.parallelize, pipeline=job.pipeline)
    for name, value in given.items():
        if value is not None and not callable(value):
            raise MatrixError(f"{name} is a {type(value).__name__}; give a function")
    for name, number in {
        "steps": job.steps,
        "threads": job.threads,
        "noise": settings.noise,
    }.items():
        if not isinstance(number, int) or number < 1:
            raise MatrixError(f"{name}={number!r}: give a number from 1")
    if not settings.limit > 0:
        raise MatrixError(f"limit={settings.limit!r}: give a number of seconds above 0")
    if settings.backend not in (None, "gloo", "nccl"):
        raise MatrixError(f'backend={settings.backend!r} is neither "gloo" nor "nccl"')


@contextmanager
def folder_of(out: str | Path | None) -> Iterator[Path]:
    """The folder of a matrix. One that the user does not name is removed when it is empty."""
    if out is not None:
        folder = Path(out).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MatrixError(f"out={str(out)!r}: {error.strerror}") from error
        yield folder
        return
    folder = Path(tempfile.mkdtemp(prefix="ttrace_matrix_"))
    try:
        yield folder
    except BaseException as error:
        if str(folder) not in str(error):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for part in folder.iterdir():
        if part.name == "reference" and len(list(folder.iterdir())) == 1:
            shutil.rmtree(part, ignore_errors=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _row(
    job: Job, word: Word, reference: Reference, folder: Path, settings: Settings, backend: str
) -> Row:
    def trained(place: Path) -> Sequence[str]:
        where = {"grouped": True, "backend": backend, "threads": job.threads}
        arguments = (job, word, place / "run", reference.parameters)
        apart = run_ranks(train_layout, arguments, word.ranks, place, settings.limit, **where)[0]
        return [n for n in reference.activations if n.partition("[")[0] in apart]

    return judged_row(word.text, trained, reference, folder, settings)


def judged_row(
    layout: str,
    trained: Callable[[Path], Sequence[str]],
    reference: Reference,
    folder: Path,
    settings: Settings,
) -> Row:
    """Trains and judges one layout.

    trained: records the layout as `run` in the folder that it gets, and returns the names of
        activations that are not compared.
    """
    begun = time.monotonic()
    place = folder / layout.replace(":", "_")
    shutil.rmtree(place, ignore_errors=True)
    run = place / "run"
    verdicts: Sequence[Any] = ()
    error = ""
    try:
        skip = trained(place)
        verdicts = (
            compare(reference.trace, run, place, reference.tolerance, skip=skip),
            audit(run, reference.specification, place),
        )
    except MatrixError as failure:
        error = str(failure)
    row = Row(layout, time.monotonic() - begun, verdicts, error, place)
    # What could not be made left nothing to look at, unless its text says so.
    tells = row.code != FINE and (bool(verdicts) or str(place) in error)
    if tells or settings.out is not None:
        return row
    shutil.rmtree(place, ignore_errors=True)
    return Row(row.layout, row.seconds, verdicts, error)


def judge_traces(
    reference: Path, run: Path, noise: Sequence[Path], out: str | Path | None
) -> Matrix:
    """Compares two existing traces and returns a matrix of one row. Throws MatrixError."""
    begun = time.monotonic()
    program()
    with folder_of(out) as folder:
        verdict = compare(reference, run, folder, noise=noise)
        kept = None if verdict.code == FINE and out is None else folder
        if kept is None:
            for file in folder.iterdir():
                file.unlink()
        return Matrix([Row(run.name, time.monotonic() - begun, [verdict], "", kept)])


def notes_on(
    reference: Reference, settings: Settings, seconds: float, backend: str
) -> list[tuple[str, str]]:
    """What is said below the table."""
    origin = "from the cache" if reference.cached else "made now"
    text = (
        f"of {reference.date}, {origin} in {seconds:.1f} s, {settings.noise} noise runs, {backend}"
    )
    return [("reference", f"{text}: {reference.trace}")]


def make_job(build: Any, batches: Any, **given: Any) -> Job:
    """A job from the arguments of `assert_equivalent`; None stands for the default."""
    known = {name: value for name, value in given.items() if value is not None}
    seed = known.get("seed", 0)
    return Job(build, read_batches(batches, seed), **known)
