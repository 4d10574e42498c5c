"""`ttrace demo`: what it writes, and that every command it prints works as printed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from support.ttrace_cli import DIVERGED, MATCH, REPOSITORY, UNUSABLE, ttrace_binary

from .conftest import Run

TESTDATA = REPOSITORY / "testdata" / "demo"


def commands_in(shown: str) -> list[str]:
    """The indented lines that are commands, without what stands behind #."""
    lines = re.findall(r"^  ((?:ttrace|cd) .*)$", shown, re.M)
    return [line.split("  #")[0].rstrip() for line in lines]


def typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Types a command into a shell that finds `ttrace` and little else: no Python, no torch."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={"PATH": f"{ttrace_binary().parent}:/usr/bin:/bin", "COLUMNS": "100000"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_command_works_as_printed(ttrace: Run, tmp_path: Path) -> None:
    done = typed("ttrace demo", tmp_path)
    assert done.returncode == MATCH and done.stderr == ""
    assert len(done.stdout.splitlines()) <= 40
    change, *commands = commands_in(done.stdout)
    assert change == "cd ttrace-demo" and len(commands) == 8
    folder = tmp_path / "ttrace-demo"
    answers = {}
    for command in commands:
        answer = typed(command, folder)
        assert answer.stderr == "" and answer.stdout, command
        assert answer.returncode in (MATCH, DIVERGED), command
        answers[command] = answer
    # The first one prints what the demo has shown.
    shown = answers[commands[0]]
    assert shown.returncode == DIVERGED
    screen = shown.stdout.splitlines()
    assert screen[0].startswith("DIVERGED  the gradients of 10 of 28 parameters")
    assert screen[0] in done.stdout.splitlines()
    assert answers[commands[1]].stdout.startswith("MATCH  202 tensors agree, nothing unchecked")
    assert (folder / "page.html").read_text().startswith("<!")
    assert answers[commands[4]].stdout.startswith("FINDINGS  ")
    assert answers[commands[5]].stdout.startswith("BROKEN  ")


def test_it_writes_the_traces_of_testdata(ttrace: Run, tmp_path: Path) -> None:
    assert ttrace("demo", "here", cwd=tmp_path).returncode == MATCH
    written = {str(p.relative_to(tmp_path / "here")) for p in tmp_path.rglob("*") if p.is_file()}
    known = {str(p.relative_to(TESTDATA)) for p in TESTDATA.rglob("*") if p.is_file()}
    assert written == known - {"README.md"}
    for name in written:
        assert (tmp_path / "here" / name).read_bytes() == (TESTDATA / name).read_bytes(), name


def test_it_replaces_nothing(ttrace: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = ttrace("demo", "mine", cwd=tmp_path)
    assert done.returncode == UNUSABLE and done.stdout == ""
    assert done.stderr.startswith("ttrace: mine: ") and done.stderr.count("\n") == 1
    assert list((tmp_path / "mine").iterdir()) == []
    done = ttrace("demo", "no/where", cwd=tmp_path)
    assert done.returncode == UNUSABLE and "no/where" in done.stderr
    assert os.listdir(tmp_path) == ["mine"]


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    limited = f"ulimit -f 100; {ttrace_binary()} demo"  # blocks of 512 bytes in a POSIX shell
    done = typed(limited, tmp_path)
    assert done.returncode == UNUSABLE and "ttrace-demo" in done.stderr
    assert done.stdout == "" and os.listdir(tmp_path) == []


def test_quiet_is_the_answer_alone(ttrace: Run, tmp_path: Path) -> None:
    done = ttrace("demo", "--quiet", cwd=tmp_path)
    assert done.returncode == MATCH and done.stdout.startswith("DIVERGED  ")
    assert done.stdout.count("\n") == 1
