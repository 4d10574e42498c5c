"""`--help` of every command: on one screen, in a person's words."""

from __future__ import annotations

import re

import pytest
from support.ttrace_cli import MATCH, run_ttrace

from .conftest import Run

COMMANDS = [
    [],
    *([name] for name in re.findall(r"^  ([a-z]+)  ", run_ttrace("--help").stdout, re.M)),
]
COMMANDS += [["report", "merge"], ["report", "show"], ["report", "diff"], ["report", "trend"]]


def test_every_command_is_looked_at() -> None:
    assert len(COMMANDS) >= 14
    assert ["compare"] in COMMANDS and ["selftest"] in COMMANDS


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_fits_on_a_screen(ttrace: Run, command: list[str]) -> None:
    done = ttrace(*command, "--help")
    assert done.returncode == MATCH and done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if len(line) > 100] == []
    assert lines[1].startswith(" ".join(["Usage: ttrace", *command, "[OPTIONS]"]))
    # What a value is, and no type of the parser's.
    assert not re.search(r"\b(TEXT|UINT|INT|FLOAT|VALUE|REQUIRED|Excludes)\b", done.stdout)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_a_command_too(ttrace: Run, command: list[str]) -> None:
    shown = ttrace("help", *command)
    assert shown.returncode == MATCH
    assert shown.stdout == ttrace(*command, "--help").stdout == ttrace(*command, "-h").stdout


@pytest.mark.parametrize(
    "command", ["compare", "audit", "localize", "selftest", "inspect", "merge"]
)
def test_it_begins_with_examples_that_the_command_takes(ttrace: Run, command: str) -> None:
    text = ttrace(command, "--help").stdout
    examples = text.split("\nExamples:\n")[1].split("\n\n")[0].splitlines()
    assert examples
    flags = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text.split("\n\n", 2)[2]))
    for line in examples:
        call = line.strip().split("      ")[0]
        assert call.startswith(f"ttrace {command} ")
        assert set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", call)) <= flags


def test_the_version_has_a_short_flag(ttrace: Run) -> None:
    assert ttrace("-V").stdout == ttrace("--version").stdout
    assert ttrace("-V").stdout.startswith("ttrace ")


def test_the_help_of_no_command_is_refused(ttrace: Run) -> None:
    done = ttrace("help", "compere")
    assert done.returncode == 2
    assert done.stderr == 'ttrace: no command "compere"; did you mean "compare"?\n'
