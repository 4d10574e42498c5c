"""The fenced blocks of all pages, and the commands and outputs in them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^([ \t]*)```(\w*)\n(.*?)^\1```", re.S | re.M)


@dataclass(frozen=True)
class Block:
    page: str  # relative to the repository
    line: int
    language: str  # "" where the fence names none
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page of the repository that git knows, or of a tree without git all but of builds."""
    known = subprocess.run(["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True)
    if known.returncode == 0 and known.stdout:
        return known.stdout.decode().split()
    found = (str(path.relative_to(REPOSITORY)) for path in REPOSITORY.rglob("*.md"))
    return sorted(page for page in found if not re.match(r"build|\.venv", page))


def blocks(language: str) -> list[Block]:
    """Those of one language, in the order of the pages."""
    found = []
    for page in pages():
        text = (REPOSITORY / page).read_text()
        for match in FENCE.finditer(text):
            if match[2] == language:
                line = text[: match.start()].count("\n") + 1
                found.append(Block(page, line, language, match[3]))
    return found


@dataclass(frozen=True)
class Command:
    line: str  # for a shell
    printed: list[str]  # what the page shows below it; empty: the page shows nothing


# What a line of a block begins with if it is a command and the block has no prompts.
COMMAND = re.compile(
    r"(job=\$\()?([A-Z_]+=\S+ )*"
    r"(sbatch |ttrace |python |torchrun |mpirun |cmake |ctest |scripts/|build/)"
)


def session(block: Block) -> list[Command]:
    """The commands of a block with prompts ("$ ") or of one that begins with a command; none of one
    that shows an output alone."""
    lines = block.text.splitlines()
    if not any(line.startswith("$ ") for line in lines):
        if not COMMAND.match(lines[0]):
            return []
        return [Command(line.split("  #")[0], []) for line in lines if COMMAND.match(line)]
    commands: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append(Command(line[2:], []))
        else:
            commands[-1].printed.append(line)
    return commands
