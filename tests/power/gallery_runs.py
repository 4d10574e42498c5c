"""Runs of the gallery: traced, and what `ttrace compare`, `audit` and `localize` say of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from gallery.agreement import ALONE, SEEDS
from gallery.config import Config
from gallery.together import traced
from support.reports import read_report
from support.ttrace_cli import run_ttrace

SPECIFICATION = "specification.json"
NO_COMMAND = "no such command"
LIMIT = 300  # seconds of one command


@dataclass(frozen=True)
class Told:
    """What a command says of a run: its exit code, and the tensor or module that it names first.

    note: why it says nothing.
    """

    exit_code: int | None = None
    name: str = ""
    kind: str = ""
    note: str = ""


class Runs:
    """Traces in `folder`; references are made once for each set of options."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reference = functools.cache(self._trace_reference)

    def trace(self, config: Config) -> Path:
        return _quietly_traced(config, Path(tempfile.mkdtemp(dir=self._folder)) / "run")

    def drop(self, run: Path) -> None:
        shutil.rmtree(run.parent)

    def compare(self, config: Config, run: Path) -> tuple[dict[str, Any], float]:
        """The report of the comparison with three noise runs, and the seconds it took."""
        out = run.parent / "report.json"
        against = self.against(config, run)
        begin = time.monotonic()
        run_ttrace("compare", *against, "--json", out, "--quiet", timeout=LIMIT)
        return read_report(out), time.monotonic() - begin

    def audit(self, config: Config, run: Path) -> Told:
        """The run alone, which follows the specification or does not."""
        if not _has_command("audit"):
            return Told(note=NO_COMMAND)
        specification = self._specification(_alone(config))
        if isinstance(specification, str):
            return Told(note=specification)
        done = run_ttrace("audit", run, "--specification", specification, timeout=LIMIT)
        return _first_of(done.returncode, done.stdout, done.stderr)

    def audit_report(self, config: Config, run: Path) -> dict[str, Any] | None:
        """What `ttrace audit` writes; nothing if it judges nothing."""
        specification = self._specification(_alone(config))
        if isinstance(specification, str):
            return None
        out = run.parent / "audit.json"
        flags = ("--specification", specification, "--json", out, "--quiet")
        done = run_ttrace("audit", run, *flags, timeout=LIMIT)
        return read_report(out) if done.returncode in (0, 1, 3) else None

    def localize(self, config: Config, run: Path) -> Told:
        if not _has_command("localize"):
            return Told(note=NO_COMMAND)
        specification = self._specification(_alone(config))
        flags = [] if isinstance(specification, str) else ["--specification", specification]
        done = run_ttrace("localize", *self.against(config, run), *flags, timeout=LIMIT)
        told = _first_of(done.returncode, done.stdout, done.stderr)
        module = re.search(r"^ +module +(\S+)", done.stdout, re.MULTILINE)
        return dataclasses.replace(told, name=module[1]) if module else told

    def commands(self, config: Config, run: Path) -> dict[str, list[str]]:
        """The commands that judge a run and write `answer.json`, by name: `compare`, `selftest`,
        and where the reference wrote a specification also `audit` and `localize`."""
        against = [str(argument) for argument in self.against(config, run)]
        asked = {"compare": against, "selftest": against}
        specification = self._specification(_alone(config))
        if not isinstance(specification, str):
            by = ["--specification", str(specification)]
            asked |= {"audit": [str(run), *by], "localize": [*against, *by]}
        return {name: [name, *told, "--json", "answer.json"] for name, told in asked.items()}

    def against(self, config: Config, run: Path) -> list[str | Path]:
        alone = _alone(config)
        noise = [flag for seed in SEEDS for flag in ("--noise", self._reference(alone, seed))]
        return [self._reference(alone, 0), run, *noise]

    def _trace_reference(self, alone: Config, seed: int) -> Path:
        trace = Path(tempfile.mkdtemp(dir=self._folder)) / f"seed{seed}.h5"
        if seed == 0:
            with mock.patch.dict(
                os.environ, TTRACE_SPECIFICATION=str(trace.with_name(SPECIFICATION))
            ):
                return _quietly_traced(dataclasses.replace(alone, trace=str(trace)), trace)
        return _quietly_traced(dataclasses.replace(alone, perturb=seed, trace=str(trace)), trace)

    def _specification(self, alone: Config) -> Path | str:
        """The specification that the reference run wrote; or that it wrote none."""
        file = self._reference(alone, 0).with_name(SPECIFICATION)
        return file if file.exists() else "no specification"


def _quietly_traced(config: Config, trace: Path) -> Path:
    with contextlib.redirect_stdout(io.StringIO()):
        return traced(config, trace)


def _alone(config: Config) -> Config:
    return dataclasses.replace(config, **ALONE, bug=())


@functools.cache
def _has_command(name: str) -> bool:
    return re.search(rf"^ +{name} ", run_ttrace("--help").stdout, re.MULTILINE) is not None


def _first_of(exit_code: int, text: str, errors: str) -> Told:
    """Name and kind of what a command's answer names first."""
    if exit_code not in (0, 1, 3):
        return Told(exit_code, note=errors.strip().splitlines()[-1][:80] if errors.strip() else "")
    first = re.search(r"^ +first at +(.+?) · (\w+)", text, re.MULTILINE)
    return Told(exit_code, first[1], first[2]) if first else Told(exit_code)
