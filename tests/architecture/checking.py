"""What the checks of the sources share: their command line, and copies to plant violations in."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(violations: Callable[[Path], list[str]], called: str) -> int:
    """Prints one line per violation of the repository that the command line names, or of this."""
    found = violations(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    for line in found:
        print(line)
    print(f"{len(found)} {called}")
    return 1 if found else 0


@contextmanager
def copy_of_sources() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for top in ("apps", "lib"):
            shutil.copytree(
                ROOT / top, Path(folder) / top, ignore=shutil.ignore_patterns("__pycache__")
            )
        yield Path(folder)


def plant(path: Path, after: str, text: str) -> None:
    """Puts `text` behind the first `after`, which must be there."""
    code = path.read_text()
    if after not in code:
        sys.exit(f"{path} has no {after!r} to plant at")
    path.write_text(code.replace(after, after + text, 1))


def not_found(planted: list[tuple[str, str, str]], found: list[str]) -> list[object]:
    """What was planted, as (file, text, what the check says of it), and no line of `found` has."""
    return [
        (name, message)
        for name, _, message in planted
        if not any(message in line and line.startswith(name) for line in found)
    ]


def verdict(clean: list[str], missed: list[object]) -> int:
    """The exit code of a check's own test."""
    print(f"{len(clean)} violations before planting, missed: {missed or 'none'}")
    for line in clean:
        print(line)
    return 1 if clean or missed else 0
