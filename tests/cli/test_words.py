"""What the command line says: unknown words, where text and JSON go, and how wide it is."""

from __future__ import annotations

import json
import os
import pty
import struct
import subprocess
import termios
import unicodedata
from fcntl import ioctl
from pathlib import Path

import pytest
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, UNUSABLE, ttrace_binary

from .conftest import Run
from .small_traces import check_refused, edit_manifest, write_pair


def width(line: str) -> int:
    return sum(1 for letter in line if not unicodedata.combining(letter))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "pair").mkdir()
    return write_pair(tmp_path / "pair")


@pytest.fixture
def diverged(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "diverged").mkdir()
    reference, run = write_pair(tmp_path / "diverged")

    def scale(manifest: dict) -> None:
        for tensor in manifest["tensors"]:
            if tensor["name"] == "fc":
                tensor["scale"] = 1.5

    edit_manifest(run, scale)
    return reference, run


# Unknown words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["comapre"], 'no command "comapre"; did you mean "compare"?'),
        (["--quiet", "calibrat", "x"], 'no command "calibrat"; did you mean "calibrate"?'),
        (["report", "marge"], 'no command "marge"; did you mean "merge"?'),
        (["xyzzy"], 'no command "xyzzy"; see `ttrace --help`'),
        (["compare", "a", "b", "--jsno", "c"], 'no option "--jsno"; did you mean "--json"?'),
        (["compare", "a", "b", "--jsno=c"], 'no option "--jsno"; did you mean "--json"?'),
        (["compare", "a", "b", "--quite"], 'no option "--quite"; did you mean "--quiet"?'),
        (["lint", "a", "--xyzzyplugh"], 'no option "--xyzzyplugh"; see `ttrace lint --help`'),
        (["merge", "a", "-x", "b"], 'no option "-x"'),
        (["--versoin"], 'no option "--versoin"; did you mean "--version"?'),
    ],
)
def test_an_unknown_word_names_itself_and_the_nearest(
    ttrace: Run, words: list[str], message: str
) -> None:
    done = ttrace(*words)
    check_refused(done)
    assert done.stderr.startswith(f"ttrace: {message}"), done.stderr


def test_a_value_that_looks_like_an_option_is_none(ttrace: Run) -> None:
    check_refused(ttrace("compare", "a", "b", "--threads", "-x"), "--threads")


def test_an_escape_sequence_in_a_word_is_not_obeyed(ttrace: Run) -> None:
    check_refused(ttrace("\x1b[2J\u202e"), "\\x1b[2J\\u202e")


# Where text and JSON go


def test_json_goes_to_standard_output(
    ttrace: Run, pair: tuple[Path, Path], diverged: tuple[Path, Path]
) -> None:
    for command in (["compare", *pair], ["selftest", *pair]):
        done = ttrace(*command, "--json", "-")
        report = json.loads(done.stdout)
        assert report["schema"].startswith("ttrace."), command
        assert done.stderr != ""
    done = ttrace("compare", *diverged, "--json", "-", "--quiet")
    assert done.returncode == DIVERGED
    assert json.loads(done.stdout)["verdict"] == "diverged"
    # The reason of the exit code, and no more.
    assert done.stderr.startswith("DIVERGED  the output of fc ")
    assert done.stderr.count("\n") == 1


def test_json_and_nothing_else_if_quiet(ttrace: Run, pair: tuple[Path, Path]) -> None:
    done = ttrace("compare", *pair, "--json", "-", "--quiet")
    assert (done.returncode, done.stderr) == (MATCH, "")
    assert json.loads(done.stdout)["exit_code"] == MATCH


def test_a_reader_that_takes_no_json_is_told(pair: tuple[Path, Path]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [ttrace_binary(), "compare", *pair, "--json", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == UNUSABLE
    assert "standard output: cannot be written: no space left" in done.stderr


def test_quiet_keeps_the_reason(ttrace: Run, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    (run / "rank_00001.h5").unlink()
    for command in (
        ["compare", reference, run],
        ["compare", reference, run, "--json", "-"],
        ["merge", run, "-o", tmp_path / "merged.h5"],
    ):
        done = ttrace(*command, "--quiet")
        assert done.returncode == INCONCLUSIVE, command
        assert "rank_00001.h5: No such file" in done.stderr, command


def test_verbose_says_what_is_done(ttrace: Run, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    done = ttrace("compare", reference, run, "-v", "--json", tmp_path / "report.json")
    assert done.returncode == MATCH
    for part in (
        f"ttrace: opened {reference}: 3 tensors over 1 rank\n",
        f"ttrace: opened {run}: 3 tensors over 2 ranks\n",
        "ttrace: comparing 3 tensors of the reference with 3 tensors, without noise runs, on ",
        f"ttrace: wrote {tmp_path}/report.json (",
    ):
        assert part in done.stderr, done.stderr
    assert "opened" in ttrace("lint", run, "-v").stderr


# How wide it is


def test_text_is_folded_in_no_pipe(diverged: tuple[Path, Path]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    for flags in ([], ["--all"]):
        done = subprocess.run(
            [ttrace_binary(), "compare", *diverged, *flags],
            capture_output=True,
            encoding="utf-8",
            env=environment,
            check=False,
        )
        wide = subprocess.run(
            [ttrace_binary(), "compare", *diverged, *flags],
            capture_output=True,
            encoding="utf-8",
            env={**environment, "COLUMNS": "100000"},
            check=False,
        )
        assert len(done.stdout.splitlines()) == len(wide.stdout.splitlines())
        assert max(map(width, done.stdout.splitlines())) > 80


def test_columns_is_heeded(ttrace: Run, diverged: tuple[Path, Path]) -> None:
    wide = ttrace("compare", *diverged, environment={"COLUMNS": "1000"}).stdout
    narrow = ttrace("compare", *diverged, environment={"COLUMNS": "50"}).stdout
    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert " ".join(narrow.split())[:40] == " ".join(wide.split())[:40]


def test_text_is_as_wide_as_the_terminal(diverged: tuple[Path, Path]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    controller, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 48, 0, 0))
    with os.fdopen(controller, "rb", 0) as screen:
        done = subprocess.Popen(
            [ttrace_binary(), "compare", *diverged],
            stdout=terminal,
            stderr=subprocess.DEVNULL,
            env=environment | {"NO_COLOR": "1"},
        )
        done.wait(timeout=60)
        os.close(terminal)
        shown = b""
        try:
            while part := screen.read(1 << 16):
                shown += part
        except OSError:  # the end, on Linux
            pass
    lines = shown.decode().splitlines()
    assert lines[0].startswith("DIVERGED")
    paths = [str(path) for path in diverged]
    for line in lines:
        assert width(line) <= 48 or any(path in line for path in paths), line


def test_the_help_of_compare_says_how_to_read_a_report(ttrace: Run) -> None:
    text = ttrace("compare", "--help").stdout
    words = ("used", "m", "ε", "would pass", "frontier")
    for word in words:
        assert word in text.split("`ttrace explain ")[1].split("\n")[0]
        assert "  means  " in ttrace("explain", word).stdout
    guide = (Path(__file__).parents[2] / "apps" / "ttrace" / "README.md").read_text()
    assert "## Reading the report" in guide
