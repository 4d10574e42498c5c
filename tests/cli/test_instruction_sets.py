"""ttrace --isa: the same report to the byte on every instruction set and number of threads."""

from __future__ import annotations

import re
from pathlib import Path

from support.ttrace_cli import TESTDATA

from .conftest import Run
from .small_traces import check_refused

NOISE = ("--noise", TESTDATA / "noise1.h5")


def usable(ttrace: Run) -> list[str]:
    line = re.search(r"^instruction sets: (.*)$", ttrace("--version").stdout, re.MULTILINE)
    assert line is not None
    return line[1].split(", ")


def test_reports_are_equal_but_for_the_environment(ttrace: Run, tmp_path: Path) -> None:
    for flags in ((), NOISE):
        reports = set()
        for isa in usable(ttrace):
            for threads in ("1", "2", "5"):
                path = tmp_path / "report.json"
                pair = (TESTDATA / "ref.h5", TESTDATA / "tp2sp")
                done = ttrace(
                    "compare", "--isa", isa, "--threads", threads, *pair, *flags, "--json", path
                )
                assert f"cpu {isa}, {threads} thread" in done.stdout
                report, environment = path.read_text().split('"environment"')
                assert f'"instruction_set":"{isa}"' in environment.replace(" ", "")
                reports.add(report)
        assert len(reports) == 1


def test_an_unknown_instruction_set_is_refused_with_the_known_ones(ttrace: Run) -> None:
    done = ttrace("--isa", "mmx", "compare", TESTDATA / "ref.h5", TESTDATA / "tp2sp")
    check_refused(done, "mmx", *usable(ttrace))
