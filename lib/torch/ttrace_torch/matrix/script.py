"""A matrix of the user's own training script, which gets other arguments in each layout."""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import re
import runpy
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from ttrace_torch import variables
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.fingerprint import hash_of_trace, key_of, sources, versions
from ttrace_torch.matrix.judge import program
from ttrace_torch.matrix.processes import Place, run_ranks
from ttrace_torch.matrix.reference import (
    TRACE,
    cached_reference,
    finish_reference,
    trace_file_of,
)
from ttrace_torch.matrix.run import Settings, backend_for, folder_of, judged_row, notes_on
from ttrace_torch.matrix.table import Matrix

REFERENCE = ""  # the layout of the reference


@dataclass(frozen=True)
class Script:
    """A script that calls `ttrace_torch.trace()` without `out`, as `torchrun` would start it.

    arguments: from a layout, "" for the reference, to the script's arguments.
    """

    path: Path
    arguments: Callable[[str], Iterable[Any]]
    threads: int = 1

    def words(self, layout: str) -> list[str]:
        """The arguments of a layout. Throws MatrixError where they are none."""
        try:
            made = self.arguments(layout)
        except Exception as error:
            raise MatrixError(f"arguments({layout!r}): {type(error).__name__}: {error}") from error
        if isinstance(made, str) or not isinstance(made, Iterable):
            raise MatrixError(f"arguments({layout!r}) is a {type(made).__name__}; return a list")
        return [str(word) for word in made]


def run_scripts(
    script: Script,
    layouts: Mapping[str, int] | Iterable[str],
    settings: Settings,
    told: Callable[[str], None] = lambda line: None,
) -> Matrix:
    """Runs the script as the reference, its noise runs and every layout, and judges each.

    layouts: the ranks of each by its name; of a word such as "dp2+tp2" they are the product of its
        numbers. Throws MatrixError for what cannot be used, and where the reference does not run.
    """
    if not script.path.is_file():
        raise MatrixError(f"{script.path}: no such file")
    if not callable(script.arguments):
        raise MatrixError("arguments is no function from a layout to the script's arguments")
    ranks = _ranks_of(layouts, settings.most_ranks)
    program()
    backend = settings.backend or backend_for(max(ranks.values()))

    def ran(layout: str, place: Path, out: Path, asked: Mapping[str, Any], number: int) -> Any:
        words = script.words(layout)
        where = {"grouped": False, "backend": backend, "threads": script.threads}
        environment = {name: str(value) for name, value in {variables.OUT: out, **asked}.items()}
        task = (script.path.absolute(), words, environment)
        found = run_ranks(_run, task, number, place, settings.limit, **where)[0]
        if not out.exists():
            raise MatrixError(
                f"{script.path} recorded nothing; it calls ttrace_torch.trace() without out= "
                f"({place / 'rank_0.log'})"
            )
        return found

    with folder_of(settings.out) as folder:
        begun = time.monotonic()
        told("the reference: one process")
        work = folder / "reference"
        asked = {variables.SPECIFICATION: work / "specification.json"}
        facts = ran(REFERENCE, work, work / TRACE, asked, 1)
        facts.update(trace=hash_of_trace(work / TRACE), words=script.words(REFERENCE))
        facts.update(parameters={}, noise=settings.noise, threads=script.threads)
        key, cache = key_of(facts), settings.cache_folder
        known = cached_reference(cache, key)
        if known is None:
            for number in range(1, settings.noise + 1):
                file = trace_file_of(work, number)
                ran(REFERENCE, work, file, {variables.NOISE: number}, 1)
        reference = known or finish_reference(work, cache, settings.noise, key, facts)
        seconds = time.monotonic() - begun
        rows = []
        for layout, number in ranks.items():
            told(f"{layout}: {number} rank(s)")

            def trained(place: Path, layout: str = layout, number: int = number) -> Sequence[str]:
                ran(layout, place, place / "run", {}, number)
                return ()

            rows.append(judged_row(layout, trained, reference, folder, settings))
        return Matrix(rows, notes_on(reference, settings, seconds, backend))


def _ranks_of(layouts: Mapping[str, int] | Iterable[str], most_ranks: int | None) -> dict[str, int]:
    if isinstance(layouts, Mapping):
        found = {str(layout): ranks for layout, ranks in layouts.items()}
    else:
        words = [layouts] if isinstance(layouts, str) else list(layouts)
        found = {
            word: math.prod(map(int, re.findall(r"\d+", word.split(":")[0]))) for word in words
        }
    if not found:
        raise MatrixError("layouts: give at least one, such as dp2+tp2, or {name: ranks}")
    bound = most_ranks or max(8, 2 * (os.cpu_count() or 1))
    for layout, ranks in found.items():
        if not re.fullmatch(r"[\w.+:-]+", layout) or layout.startswith("."):
            raise MatrixError(f"layouts: {layout!r} is no name of a folder")
        if not isinstance(ranks, int) or not 0 < ranks <= bound:
            raise MatrixError(
                f"layouts: {layout!r} needs {ranks} processes, and this machine gets 1 to {bound}; "
                "most_ranks= allows more"
            )
    return found


def _run(
    place: Place, script: Path, words: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Runs one rank of the script, in its own process. Returns facts about its source code."""
    # The store of the ranks is served by the matrix, as by torchrun.
    os.environ.update(TORCHELASTIC_USE_AGENT_STORE="True", LOCAL_WORLD_SIZE=str(place.ranks))
    os.environ.update(environment)
    sys.argv = [str(script), *words]
    sys.path.insert(0, str(script.parent))
    # At the end of the process only the script's own exit handlers must run, not the matrix's.
    atexit._clear()
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise MatrixError(f"rank {place.rank} ended with {end.code} ({place.log})") from end
    finally:
        atexit._run_exitfuncs()
    own = hashlib.sha256(script.read_bytes()).hexdigest()
    return {"script": own, "sources": sources(), "versions": versions(place.device)}
