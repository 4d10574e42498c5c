"""Releases as the package index serves them, and environments of their own to train them in."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Oldest first: the newest releases of most packages still take it.
PYTHONS = ("3.12", "3.13", "3.14")


class CannotInstallError(Exception):
    """Why a release has no environment, in one sentence."""


@functools.cache
def pythons() -> dict[str, Path]:
    """Version -> interpreter, of those that start: on the path or from pyenv, and this one."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        named = shutil.which(f"python{version}")
        for path in [*([Path(named)] if named else []), *pyenv.glob(f"{version}.*/bin/python")]:
            asked = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                found.setdefault(version, path)
    found.setdefault("{}.{}".format(*sys.version_info), Path(sys.executable))
    return found


@functools.cache
def releases(package: str, python: Path | None = None) -> list[str]:
    """The final releases, the newest first: those that `python` takes, or all."""
    asked = [python or sys.executable, "-m", "pip", "index", "versions", package]
    asked += [] if python else ["--ignore-requires-python"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if listed is None:
        raise CannotInstallError(f"the package index has no {package}: {_last_line(done.stderr)}")
    return [version for version in listed[1].split(", ") if "+" not in version]


def python_for(package: str, release: str) -> str:
    """The version of the first interpreter here that the release takes."""
    for version, path in pythons().items():
        if release in releases(package, path):
            return version
    raise CannotInstallError(f"it takes no Python that is here ({', '.join(pythons())})")


def make(folder: Path, python: str) -> Path:
    """An empty environment; its interpreter."""
    _run([pythons()[python], "-m", "venv", folder])
    return folder / "bin" / "python"


def with_torch(folder: Path, python: str, torch: str) -> Path:
    """The interpreter of an environment with that torch, and all that a trace needs."""
    interpreter = make(folder, python)
    install(interpreter, f"torch=={torch}", "numpy", "h5py", "setuptools", "wheel")
    return interpreter


def upon(folder: Path, python: str, base: Path) -> Path:
    """The interpreter of an environment that sees the packages of `base`, whose torch it shares."""
    interpreter = make(folder, python)
    # As a site folder, so that what its packages do on start is done: setuptools stands in for
    # distutils, which Python lacks since 3.12.
    line = f"import site; site.addsitedir({str(_packages(base))!r})\n"
    _packages(interpreter).joinpath("base.pth").write_text(line, encoding="utf-8")
    return interpreter


def install(interpreter: Path, *wanted: str) -> None:
    """wanted: options of pip and requirements."""
    # Most modules of torch are never imported here, so none is compiled beforehand.
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    _run([interpreter, "-m", "pip", "install", *options, *wanted])


def _packages(interpreter: Path) -> Path:
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(_run([interpreter, "-c", asked]).strip())


def _run(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotInstallError(f"it does not install: {_last_line(done.stderr)}")
    return done.stdout


def _last_line(text: str) -> str:
    """The last line that tells of an error, or the last."""
    lines = [line for line in text.splitlines() if line.strip()]
    # "ERROR: Exception:" stands above a traceback, whose last line says more.
    errors = [line for line in lines if line.startswith("ERROR") and not line.endswith(":")]
    return (errors or lines or ["no reason given"])[-1].strip()
