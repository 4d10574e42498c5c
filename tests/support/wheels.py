"""Wheels of the collector alone, for tests of installing: no compiler, no network."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTOR = ROOT / "lib" / "torch"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
# The call that pip makes, after some more Python programs.
BACKEND = "import sys, scikit_build_core.build as build; build.build_wheel(sys.argv[1])"


def build(tree: Path, folder: Path) -> Path:
    """Returns the wheel that pip makes of the collector in `tree`."""
    command = [*PIP, "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    return _made([*command, "--wheel-dir", str(folder), str(tree)], folder)


def build_without_pip(tree: Path, folder: Path) -> Path:
    """The same wheel in a third of the time, for tests that make several."""
    return _made([sys.executable, "-c", BACKEND, str(folder)], folder, cwd=tree)


def _made(command: list[str], folder: Path, cwd: Path | None = None) -> Path:
    made = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "TTRACE_WITHOUT_CLI": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as opened:
        return opened.namelist()


def text_in(wheel: Path, end: str) -> str:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(end))
        return opened.read(name).decode()


def modules_below(folder: Path) -> set[str]:
    return {
        f"ttrace_torch/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def built_version() -> str:
    """The version of what is built from this tree, which may be a checkout."""
    sys.path.insert(0, str(COLLECTOR / "build_support"))
    try:
        from wheel_metadata import local_version
    finally:
        del sys.path[0]
    return own_version() + str(local_version())


def own_version() -> str:
    text = (COLLECTOR / "ttrace_torch" / "version.py").read_text()
    return text.split('__version__ = "')[1].split('"')[0]
