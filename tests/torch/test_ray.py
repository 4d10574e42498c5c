"""`python -m ttrace_torch.ray` on a local Ray: the answer of one process, also if workers die."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.same_report import json_but_environment
from support.ttrace_cli import (
    DIVERGED,
    INCONCLUSIVE,
    REPOSITORY,
    TESTDATA,
    UNUSABLE,
    run_ttrace,
    ttrace_binary,
)

from ttrace_torch.ray import state_of

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed in this environment (pip install ray)",
)
PAIR = ("ref.h5", "tp2sp_p12")
SECONDS = 400


def on_ray(*arguments: str | Path, program: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "TTRACE": str(program or ttrace_binary()),
        "PYTHONPATH": str(REPOSITORY / "lib" / "torch"),
        "COLUMNS": "100000",
        "RAY_raylet_start_wait_time_s": "300",  # on a busy machine
    }
    environment.pop("RAY_ADDRESS", None)
    return subprocess.run(
        [sys.executable, "-m", "ttrace_torch.ray", *map(str, arguments)],
        cwd=TESTDATA, env=environment, timeout=SECONDS, capture_output=True, text=True, check=False,
    )  # fmt: skip


def program_that(folder: Path, *lines: str) -> Path:
    """ttrace, before which a shell does something."""
    path = folder / "ttrace"
    path.write_text("\n".join(["#!/bin/sh", *lines, f'exec {ttrace_binary()} "$@"', ""]))
    path.chmod(0o755)
    return path


@needs_ray
def test_a_comparison_whose_workers_die_once(tmp_path: Path) -> None:
    whole = run_ttrace("compare", *PAIR, "--json", tmp_path / "whole.json", cwd=TESTDATA)
    assert whole.returncode == DIVERGED
    # Each part kills its worker the first time.
    mark = f'{tmp_path}/"$(echo "$*" | tr -dc 0-9)"'
    once = f'case "$*" in *--part*) mkdir {mark} 2>/dev/null && kill -9 $PPID;; esac'
    program = program_that(tmp_path, once)
    done = on_ray(*PAIR, "--parts", "3", "--json", tmp_path / "ray.json", program=program)
    assert done.returncode == DIVERGED, done.stderr
    assert json_but_environment(tmp_path / "ray.json") == json_but_environment(
        tmp_path / "whole.json"
    )
    assert done.stdout.splitlines()[0].split("  ")[0] == "DIVERGED"
    for part in (1, 2, 3):
        assert f"part {part} of 3 is tried again: " in done.stderr
        assert f"part {part} of 3 is done" in done.stderr


@needs_ray
def test_an_audit_of_which_a_part_never_ends(tmp_path: Path) -> None:
    flags = ["--specification", "specification.json"]
    never = 'case "$*" in *"--part 2/3"*) kill -9 $PPID; sleep 9;; esac'
    program = program_that(tmp_path, never)
    done = on_ray("tp2sp_p12", "--audit", *flags, "--parts", "3", "--tries", "2", program=program)
    assert done.returncode == INCONCLUSIVE, done.stderr
    assert "part 2 of 3 failed 2 times, and is missing" in done.stderr
    assert done.stdout.startswith("INCONCLUSIVE  part 2 of 3 is missing")


@needs_ray
def test_an_audit(tmp_path: Path) -> None:
    flags = ["--specification", "specification.json"]
    run_ttrace("audit", "tp2sp_p12", *flags, "--json", tmp_path / "whole.json", cwd=TESTDATA)
    done = on_ray("tp2sp_p12", "--audit", *flags, "--json", tmp_path / "ray.json", "--quiet")
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert json_but_environment(tmp_path / "ray.json") == json_but_environment(
        tmp_path / "whole.json"
    )


@needs_ray
def test_what_the_program_refuses() -> None:
    done = on_ray(*PAIR, "--only", "no.such.tensor")
    assert done.returncode == UNUSABLE
    assert "no.such.tensor" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["ref.h5"], "found 1 traces: give a reference and a run"),
        (["--audit", *PAIR], "found 2 traces: give one"),
        ([*PAIR, "--parts", "0"], "--parts 0: give at least 1"),
    ],
)
def test_wrong_arguments(arguments: list[str], reason: str) -> None:
    done = on_ray(*arguments)
    assert done.returncode == UNUSABLE
    assert done.stderr.startswith(f"ttrace_torch.ray: {reason}")


@pytest.mark.parametrize("name", ["rank_00001.h5", "rank_00001.safetensors", "rank_123456.zarr"])
@pytest.mark.parametrize("change", ["absent", "shorter", "older"])
def test_a_node_that_lacks_a_file_is_seen(tmp_path: Path, name: str, change: str) -> None:
    names = ["manifest.json", "rank_00000.h5", name]
    for folder in ("here", "there"):
        (tmp_path / folder / "run").mkdir(parents=True)
        for one in names:
            (tmp_path / folder / "run" / one).write_text("of the trace")
            os.utime(tmp_path / folder / "run" / one, (1, 1))
    here, there = (seen_in(tmp_path / folder) for folder in ("here", "there"))
    assert here == there and {Path(path).name for path in here} == set(names)
    changed = tmp_path / "there" / "run" / name
    if change == "absent":
        changed.unlink()
    elif change == "shorter":
        changed.write_text("of")
    else:
        os.utime(changed, (2, 2))
    lacking = set(here.items()) - set(seen_in(tmp_path / "there").items())
    assert {Path(path).name for path, _ in lacking} == {name}


def seen_in(folder: Path) -> dict[str, tuple[int, int]]:
    """What a node sees of the run in a folder. Files that are no part of a trace do not matter."""
    (folder / "run" / "rank_00000.h5.tmp").write_text(folder.name)
    (folder / "run" / "report.json").write_text(folder.name)
    (folder / "run" / "rank_00000.log.1").write_text(folder.name)
    found = state_of(["run"], str(folder))
    return {str(Path(path).relative_to(folder)): facts for path, facts in found.items()}


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed here")
def test_without_ray() -> None:
    done = on_ray(*PAIR)
    assert done.returncode == UNUSABLE
    assert done.stderr == "ttrace_torch.ray: Ray is not installed here (pip install ray)\n"
