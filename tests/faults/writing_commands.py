"""Every command of `ttrace` that writes, and what it may leave behind when a call has failed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from support.ttrace_cli import TESTDATA, ttrace_binary

REFERENCE, HEALTHY, FAULTY = TESTDATA / "ref.h5", TESTDATA / "tp2sp", TESTDATA / "tp2sp_p12"
NOISE = TESTDATA / "noise1.h5"
SPECIFICATION = TESTDATA / "specification.json"
# How long it took, which a report says at its end.
SECONDS = re.compile(rb"[0-9.]+ s\b")
# A short comparison: two parameters and what became of them.
FEW = ["--only", "final_norm*", "--threads", "1"]


class Command(NamedTuple):
    """arguments: of the command, with {inputs} and {out} for its folders; stdout is kept in {out}.

    inputs: fills the folder of inputs, where no call fails.
    prepare: fills the folder of outputs, before any call may fail.
    """

    arguments: list[str | Path]
    inputs: Callable[[Path], None] = lambda folder: None
    prepare: Callable[[Path], None] = lambda folder: None


def run(*arguments: str | Path) -> None:
    done = subprocess.run([ttrace_binary(), *arguments], capture_output=True, text=True)
    assert done.returncode in (0, 1, 3), done.stderr


def older(name: str) -> Callable[[Path], None]:
    """A file of that name from before, longer than what replaces it."""
    return lambda folder: (folder / name).write_bytes(b"an older file\n" * 100_000) and None


def parts(folder: Path) -> None:
    for part in (1, 2):
        name = folder / f"part{part}.json"
        run("compare", REFERENCE, FAULTY, *FEW, "--part", f"{part}/2", "--json", name)


def half_a_state(folder: Path) -> None:
    """What a killed `compare --resume` leaves: some lines, the last of them cut."""
    run("compare", REFERENCE, FAULTY, *FEW, "--resume", folder / "state")
    whole = (folder / "state").read_bytes()
    (folder / "state").write_bytes(whole[: len(whole) * 2 // 3])


def a_run_without_manifest(folder: Path) -> None:
    shutil.copytree(HEALTHY, folder / "run")
    (folder / "run" / "manifest.json").unlink()


COMPARE = ["compare", REFERENCE, FAULTY, *FEW]

COMMANDS: dict[str, Command] = {
    "merge": Command(["merge", HEALTHY, "-o", "{out}/merged.h5"]),
    "merge --force": Command(
        ["merge", HEALTHY, "--only", "final_norm*", "--force", "-o", "{out}/merged.h5"],
        prepare=older("merged.h5"),
    ),
    "demo": Command(["demo", "{out}/demo"]),
    "compare": Command([*COMPARE, "--all"]),
    "compare --json": Command([*COMPARE, "--json", "{out}/report.json"]),
    "compare --json -": Command([*COMPARE, "--json", "-"]),
    "compare --json, replacing": Command(
        [*COMPARE, "--json", "{out}/report.json"], prepare=older("report.json")
    ),
    "compare --resume": Command([*COMPARE, "--resume", "{out}/state"]),
    "compare --resume, going on": Command(
        [*COMPARE, "--resume", "{out}/state", "--json", "{out}/report.json"], prepare=half_a_state
    ),
    "compare --part": Command([*COMPARE, "--part", "1/2", "--json", "{out}/part.json"]),
    "compare --map-starter": Command([*COMPARE, "--map-starter", "{out}/map.json"]),
    "report merge": Command(
        ["report", "merge", "{inputs}/part1.json", "{inputs}/part2.json", "--threads", "1"]
        + ["--json", "{out}/report.json"],
        inputs=parts,
    ),
    "selftest --json": Command(
        ["selftest", REFERENCE, HEALTHY, *FEW, "--json", "{out}/selftest.json"]
    ),
    "calibrate": Command(
        ["calibrate", REFERENCE, NOISE, "--threads", "1", "-o", "{out}/tolerance.json"]
    ),
    "calibrate --starter": Command(
        ["calibrate", REFERENCE, NOISE, "--starter", HEALTHY, "--threads", "1"]
        + ["-o", "{out}/tolerance.json"]
    ),
    "localize --json": Command(
        ["localize", REFERENCE, FAULTY, *FEW, "--json", "{out}/localize.json"]
    ),
    "localize --plan": Command(["localize", REFERENCE, FAULTY, *FEW, "--plan", "{out}/plan.json"]),
    "audit --json": Command(
        ["audit", HEALTHY, "--specification", SPECIFICATION, "--only", "final_norm*"]
        + ["--threads", "1", "--json", "{out}/audit.json"]
    ),
    "lint --write": Command(["lint", "--write", "{out}/run"], prepare=a_run_without_manifest),
}


class Left(NamedTuple):
    """What a command left: its exit code, and the contents of all files that it may write."""

    exit_code: int
    files: dict[str, bytes]
    said: str


def content(path: Path) -> bytes:
    """A file's content, without what may differ between two runs of the same command."""
    data = path.read_bytes()
    if data.startswith(b"{"):
        try:
            report = json.loads(data)
        except ValueError:
            report = None
        if isinstance(report, dict):
            report.pop("environment", None)
            return json.dumps(report).encode()
    if path.name == "stdout":
        return SECONDS.sub(b"T s", data)
    return data


def left_by(name: str, inputs: Path, out: Path, settings: dict[str, str]) -> Left:
    """Runs the command in the new folder `out`."""
    out.mkdir()
    command = COMMANDS[name]
    command.prepare(out)
    words = [str(word).format(inputs=inputs, out=out) for word in command.arguments]
    with (out / "stdout").open("wb") as stdout:
        done = subprocess.run(
            [ttrace_binary(), *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**os.environ, **settings},
            timeout=120,
        )
    files = {str(path.relative_to(out)): content(path) for path in out.rglob("*") if path.is_file()}
    return Left(done.returncode, files, done.stderr.decode(errors="replace"))


def what_is_wrong(intended: Left, found: Left) -> str:
    """Why the files do not belong to the exit code; empty if they do.

    A command that ends as it does undisturbed must leave the same files. Another one must say why,
    and leave what it did not finish under no name that a reader would look for.
    """
    if found.exit_code < 0 or found.exit_code > 3:
        return f"it ended with {found.exit_code}"
    differ = [
        name
        for name in {*intended.files, *found.files}
        if intended.files.get(name) != found.files.get(name)
    ]
    if differ == ["stdout"] and "ttrace: warning: " in found.said:
        differ = []  # `demo` reads what it has written, and says what it could not read
    if found.exit_code == intended.exit_code:
        return f"{', '.join(sorted(differ))}: other bytes than intended" if differ else ""
    if found.exit_code == 0:
        return f"exit code 0 instead of {intended.exit_code}"
    if "ttrace: " not in found.said and not found.files.get("stdout"):
        return f"exit code {found.exit_code} without a word"
    return ""
