"""The reference of a job, its noise runs and its specification: made once, and kept in a cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from ttrace_torch.api import trace
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.fingerprint import fingerprint, key_of
from ttrace_torch.matrix.job import Job
from ttrace_torch.matrix.judge import calibrate
from ttrace_torch.matrix.processes import Place, run_ranks
from ttrace_torch.matrix.train import check_parameters, train
from ttrace_torch.perturb.perturber import Perturb

# Entries of the cache; what was used least recently goes first.
_MOST_ENTRIES = 8
TRACE, _SPECIFICATION = "reference.h5", "specification.json"
_TOLERANCE, _FACTS = "tolerance.json", "facts.json"


@dataclass(frozen=True)
class Reference:
    """Files of a reference, and what they were made of.

    parameters: their hashes by name. activations: names of what modules were given and returned.
    made: when, in seconds since 1970. cached: whether an earlier matrix made it.
    """

    folder: Path
    parameters: Mapping[str, str]
    activations: Sequence[str]
    made: float
    cached: bool

    @property
    def trace(self) -> Path:
        return self.folder / TRACE

    @property
    def tolerance(self) -> Path:
        """What the noise runs say."""
        return self.folder / _TOLERANCE

    @property
    def specification(self) -> Path | None:
        """None where none could be made of the job; only `audit` needs it."""
        path = self.folder / _SPECIFICATION
        return path if path.exists() else None

    @property
    def date(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.made))


def trace_file_of(folder: Path, noise: int) -> Path:
    """The trace of a noise run."""
    return folder / f"noise_{noise}.h5"


def default_cache() -> Path:
    """The folder of this user's references."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ttrace" / "matrix"


def make_reference(
    job: Job, folder: Path, cache: Path | None, noise: int, limit: float, backend: str
) -> Reference:
    """Makes the reference in one process, or takes it from the cache if the job is as it was.

    folder: for the files of this matrix; without a cache the reference stays there.
    Throws MatrixError if the job does not run on one process.
    """
    work = folder / "reference"
    work.mkdir(parents=True, exist_ok=True)
    arguments = (job, work, cache, noise)
    where = {"grouped": False, "backend": backend, "threads": job.threads}
    (answer,) = run_ranks(_make, arguments, 1, work, limit, **where)
    known = cached_reference(cache, answer["key"])
    return known or finish_reference(work, cache, noise, answer["key"], answer["facts"])


def cached_reference(cache: Path | None, key: str) -> Reference | None:
    """The reference of a key, if the cache has it whole."""
    if cache is None or not _is_whole(cache / key):
        return None
    return _read(cache / key, cached=True)


def finish_reference(
    work: Path, cache: Path | None, noise: int, key: str, facts: Mapping[str, Any]
) -> Reference:
    """Calibrates by the noise runs that lie in `work` beside the trace, and keeps what is there.

    facts: what the reference was made of; `parameters` are the hashes of them.
    """
    runs = [trace_file_of(work, number) for number in range(1, noise + 1)]
    calibrate(work / TRACE, runs)
    for run in runs:
        run.unlink()
    files = {f.name: _checksum(f) for f in sorted(work.iterdir()) if f.suffix != ".log"}
    files.pop("rank_0.json", None)
    said = {"made": time.time(), "files": files, "of": facts}
    said["activations"] = _activations(work / TRACE)
    (work / _FACTS).write_text(json.dumps(said), encoding="utf-8")
    kept = work if cache is None else _keep(work, cache, key)
    return _read(kept, cached=False)


def _make(place: Place, job: Job, work: Path, cache: Path | None, noise: int) -> dict[str, Any]:
    """Trains the reference and its noise runs, in a process of their own, unless they are in the
    cache."""
    facts = fingerprint(job, job.model(place.device), place.device, noise)
    key = key_of(facts)
    if cache is not None and _is_whole(cache / key):
        return {"key": key, "facts": facts}
    for number in range(noise + 1):
        model = job.model(place.device)
        check_parameters(model, facts["parameters"], "a second call")
        optimizer = job.optimizer(model.parameters())
        tracer = trace(
            model,
            optimizer,
            out=trace_file_of(work, number) if number else work / TRACE,
            perturb=Perturb(number) if number else None,
            specification=None if number else work / _SPECIFICATION,
            run={"command": "matrix reference"},
        )
        train(job, model, optimizer, tracer, place, 0, len(job.batches))
    return {"key": key, "facts": facts}


def _is_whole(entry: Path) -> bool:
    """Whether a cached reference has what it was kept with: its files, and what it was made of."""
    try:
        said = json.loads((entry / _FACTS).read_text(encoding="utf-8"))
        whole = {TRACE, _TOLERANCE} <= set(said["files"]) and key_of(said["of"]) == entry.name
        return whole and all(_checksum(entry / n) == sum for n, sum in said["files"].items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _read(entry: Path, cached: bool) -> Reference:
    said = json.loads((entry / _FACTS).read_text(encoding="utf-8"))
    with suppress(OSError):
        os.utime(entry)
    parameters = said["of"]["parameters"]
    return Reference(entry, parameters, said["activations"], said["made"], cached)


def _activations(trace_file: Path) -> list[str]:
    """Names of all inputs and outputs of modules in a trace."""
    with h5py.File(trace_file) as file:
        manifest = json.loads(bytes(file["manifest"][()]))
    kinds = ("input", "output", "grad_output")
    return sorted({t["name"] for t in manifest["tensors"] if t["kind"] in kinds})


def _keep(work: Path, cache: Path, key: str) -> Path:
    """Moves a reference into the cache, where other matrices may be at work. Stays where it is if
    that cannot be done."""
    entry = cache / key
    try:
        cache.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix="new_", dir=cache))
        for name in [*json.loads((work / _FACTS).read_text(encoding="utf-8"))["files"], _FACTS]:
            shutil.move(str(work / name), str(staged / name))
        if entry.exists():
            # The entry is damaged, or another matrix has made it meanwhile: replace it either way.
            entry.rename(staged / "before")
        staged.rename(entry)
        shutil.rmtree(entry / "before", ignore_errors=True)
    except OSError as error:
        raise MatrixError(
            f"cache={str(cache)!r}: {error.strerror or error}; give another folder, or cache=False"
        ) from error
    _forget_old(cache, entry)
    return entry


def _forget_old(cache: Path, kept: Path) -> None:
    """Removes the entries that were used least recently, beyond the number that is kept."""
    with suppress(OSError):
        entries = [path for path in cache.iterdir() if (path / _FACTS).exists() and path != kept]
        entries.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in entries[_MOST_ENTRIES - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
