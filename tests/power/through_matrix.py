"""The bugs of the gallery through `ttrace_torch.testing.assert_equivalent` alone, as a test of your
own trainer calls it: does the test fail for the bug, and pass for the same layout without it?"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterable
from typing import Any

from gallery.config import Config
from gallery.expected import EXPECTED
from support.ttrace_cli import REPOSITORY

from power.gallery_runs import Runs
from power.tables import table
from ttrace_torch.testing import MatrixError, assert_equivalent

TABLE = REPOSITORY / "tests" / "power" / "MATRIX.md"


def matrix_table(runs: Runs, names: Iterable[str]) -> list[str]:
    rows: list[list[Any]] = []
    healthy: dict[Config, str] = {}
    for name in names:
        config = EXPECTED[name].config
        if config not in healthy:
            healthy[config] = _told(runs, config)[0]
        word, headline, seconds = _told(runs, dataclasses.replace(config, bug=(name,)))
        rows.append([name, word, headline, healthy[config], f"{seconds:.1f}"])
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    found = sum(row[1] == "DIVERGED" for row in rows)
    alarms = sum(word != "MATCH" for word in healthy.values())
    summary = f"found {found} of {len(rows)}; {alarms} of {len(healthy)} healthy layouts fail"
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return [
        f"{summary} ({day}, `scripts/gallery.sh --matrix`).",
        "",
        table(["bug", "with it", "headline", "without", "seconds"], rows),
    ]


def _told(runs: Runs, config: Config) -> tuple[str, str, float]:
    """The verdict, what the failure says, and the seconds that judging took."""
    run = runs.trace(config)
    reference, _, *flags = runs.against(config, run)
    noise = [str(path) for path in flags if path != "--noise"]
    begin = time.monotonic()
    try:
        answer = str(assert_equivalent(reference, run, noise=noise, out=run.parent / "matrix"))
    except (AssertionError, MatrixError) as error:
        answer = str(error).strip()
    seconds = time.monotonic() - begin
    runs.drop(run)
    word, _, headline = answer.splitlines()[0].partition("  ")
    return word, headline, seconds
