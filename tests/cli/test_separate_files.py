"""What a command writes is no file that it reads, and no other file that it writes."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from support.ttrace_cli import MATCH, REPOSITORY, TESTDATA

from .conftest import Run
from .small_traces import check_answer, check_refused, write_pair

SPECIFICATION = TESTDATA / "specification.json"
SAME = "name the same file"


@pytest.fixture
def folder(tmp_path: Path, ttrace: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pair of traces, and other files that a command may read; the working directory."""
    write_pair(tmp_path)
    monkeypatch.chdir(tmp_path)
    shutil.copy(SPECIFICATION, "spec.json")
    (tmp_path / "map.json").write_text('{"schema": "ttrace.map/2", "reference": []}')
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "there" / "old.json").write_text("old")
    os.link(tmp_path / "there" / "old.json", tmp_path / "hard.json")
    assert ttrace("compare", "ref.h5", "run", "--json", "report.json").returncode == MATCH
    for part in (1, 2):
        flags = ["--part", f"{part}/2", "--json", f"part{part}.json"]
        assert ttrace("compare", "ref.h5", "run", *flags).returncode == MATCH
    return tmp_path


PAIR = ["compare", "ref.h5", "run"]
LOCALIZE = ["localize", "ref.h5", "run"]


@pytest.mark.parametrize(
    "command",
    [
        [*PAIR, "--json", "x.json", "--html", "x.json"],
        [*PAIR, "--json", "x.json", "--html", "./x.json"],
        [*PAIR, "--json", "x.json", "--html", "there/../x.json"],
        [*PAIR, "--json", "x.json", "--junit", "{here}/x.json"],
        [*PAIR, "--json", "there/x.json", "--markdown", "link/x.json"],
        [*PAIR, "--json", "hard.json", "--html", "link/old.json"],
        [*PAIR, "--json", "-", "--html", "-"],
        [*PAIR, "--resume", "./state", "--json", "state"],
        [*PAIR, "--resume", "state", "--map-starter", "./state"],
        [*PAIR, "--map-starter", "there/m", "--html", "link/m"],
        [*PAIR, "--map", "map.json", "--json", "./map.json"],
        [*PAIR, "--map", "map.json", "--resume", "there/../map.json"],
        [*PAIR, "--known", "report.json", "--json", "./report.json"],
        [*PAIR, "--fail-on", "new", "--since", "report.json", "--html", "./report.json"],
        ["audit", "run", "--specification", "spec.json", "--json", "./spec.json"],
        ["audit", "run", "--json", "x", "--resume", "./x"],
        [*LOCALIZE, "--report", "report.json", "--plan", "./report.json"],
        [*LOCALIZE, "--report", "report.json", "--json", "./report.json"],
        [*LOCALIZE, "--specification", "spec.json", "--json", "./spec.json"],
        [*LOCALIZE, "--plan", "p", "--resume", "./p"],
        ["selftest", "ref.h5", "run", "--json", "x", "--map", "./x"],
        ["watch", "run", "--json", "x", "--html", "./x"],
        ["report", "merge", "part1.json", "part2.json", "--json", "./part2.json"],
        ["report", "diff", "report.json", "report.json", "--json", "./report.json"],
        ["report", "trend", "report.json", "--json", "./report.json"],
        ["report", "show", "report.json", "--format", "html", "-o", "./report.json"],
        ["run", "--json", "x", "--html", "./x", "--", "true"],
        ["run", "--specification", "spec.json", "--json", "./spec.json", "--", "true"],
        ["run", "--json", "ttrace-run/localize.json", "--", "true"],
        ["run", "--html", "ttrace-run/./ref.h5", "--", "true"],
        ["merge", "run", "--layout", "map.json", "--force", "-o", "./map.json"],
    ],
    ids=" ".join,
)
def test_a_file_is_written_once_and_not_read(folder: Path, ttrace: Run, command: list[str]) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = ttrace(*[word.replace("{here}", str(folder)) for word in command])
    check_refused(done, SAME, "give each one of its own")
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize(
    "command",
    [
        [*PAIR, "--json", "run/manifest.json"],
        [*PAIR, "--html", "link/../run/rank_00001.h5"],
        [*PAIR, "--resume", "./ref.h5"],
        [*PAIR, "--noise", "ref.h5", "--map-starter", "ref.h5"],
        ["calibrate", "ref.h5", "ref.h5", "-o", "there/../ref.h5"],
        ["watch", "run", "--json", "run/manifest.json"],
        ["selftest", "ref.h5", "run", "--json", "run/manifest.json"],
        ["report", "merge", "part1.json", "part2.json", "--json", "./ref.h5"],
        ["merge", "run", "-o", "./run/rank_00000.h5", "--force"],
        [*PAIR, "--json", "kept.h5"],
    ],
    ids=" ".join,
)
def test_a_trace_that_is_read_is_not_written(folder: Path, ttrace: Run, command: list[str]) -> None:
    if "kept.h5" in command:  # what a link in the folder of a run leads to
        (folder / "run" / "rank_00001.h5").rename("kept.h5")
        (folder / "run" / "rank_00001.h5").symlink_to(folder / "kept.h5")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    check_refused(ttrace(*command), "belongs to the trace that is read")
    assert {path: path.read_bytes() for path in before} == before


READ = """candidate-specification known layout map noise reference report since specification
          starter tolerance"""
WRITTEN = "html json junit markdown map-starter out output plan resume"


def test_it_is_known_of_every_flag_whether_its_file_is_written() -> None:
    """A new flag goes here, and one that writes into kWritten of separate_files.cpp."""
    reference = (REPOSITORY / "apps" / "ttrace" / "REFERENCE.md").read_text()
    found = set(re.findall("--([a-z-]+) (?:FILE|FOLDER|RUN|REF|TRACE|REPORT)", reference))
    assert found == {*READ.split(), *WRITTEN.split()}


def test_files_of_their_own_are_written(folder: Path, ttrace: Run) -> None:
    """Also twice, over those of the time before, and beside a trace that is read twice."""
    flags = ["--json", "there/x.json", "--html", "x.json", "--junit", "X.json"]
    flags += ["--resume", "state", "--map-starter", "link/starter.json"]
    for _ in range(2):
        check_answer(ttrace("compare", "ref.h5", "run", *flags), MATCH, "MATCH")
    done = ttrace("compare", "ref.h5", "run", "--json", "run/report.json", "--html", "-")
    assert (done.returncode, done.stdout[:9].lower()) == (MATCH, "<!doctype")
