"""Every flag that a page gives to a command is one of that command."""

from __future__ import annotations

import re

import pytest
from support.ttrace_cli import run_ttrace

from pages.blocks import REPOSITORY, pages

COMMANDS = ["compare", "localize", "audit", "calibrate", "selftest", "inspect", "lint", "merge"]
COMMANDS += [
    "report merge",
    "report show",
    "report diff",
    "report trend",
    "run",
    "watch",
    "demo",
    "doctor",
]
USE = re.compile(rf"\bttrace ({'|'.join(COMMANDS)})\b([^`\n|]*)")
FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


def uses() -> dict[str, set[tuple[str, str]]]:
    """By command: flags, each with the page that gives it."""
    found: dict[str, set[tuple[str, str]]] = {command: set() for command in COMMANDS}
    for page in pages():
        text = (REPOSITORY / page).read_text()
        for match in USE.finditer(text):
            arguments = match[2].split(" '")[0].split("  #")[0].split("; ")[0].split(" && ")[0]
            found[match[1]] |= {(flag, page) for flag in FLAG.findall(arguments)}
    return found


USES = uses()


def test_pages_give_flags() -> None:
    assert sum(len(flags) for flags in USES.values()) > 25


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_flags_that_pages_give_it(command: str) -> None:
    known = set(FLAG.findall(run_ttrace(*command.split(), "--help").stdout))
    assert known
    # The help leaves out what is rarely needed.
    (known_to_all,) = run_ttrace("man", "--format", "markdown").stdout.split(
        f"## ttrace {command}\n"
    )[1:]
    known |= set(FLAG.findall(known_to_all.split("\n## ")[0]))
    unknown = sorted(f"{page}: {flag}" for flag, page in USES[command] if flag not in known)
    assert not unknown
