"""Ctrl-C: a comparison ends with what is known, and a second one ends it at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.reports import read_report
from support.same_report import json_but_environment
from support.ttrace_cli import INCONCLUSIVE, ttrace_binary

from .conftest import Run
from .slow_traces import SLOW, write_slow_tensor, write_zeros
from .small_traces import check_match, check_refused

TENSORS = len(SLOW)
SECONDS = 120


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return [write_zeros(tmp_path / name, *SLOW) for name in ("ref.h5", "run.h5")]


def begun(state: Path, lines: int, *arguments: str | Path) -> subprocess.Popen[str]:
    """A comparison that has this many lines in its state, of its own process group."""
    process = subprocess.Popen(
        [ttrace_binary(), "compare", *arguments, "--threads", "1", "--resume", state],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and (
        not state.exists() or state.read_bytes().count(b"\n") < lines
    ):
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("how", ["int", "term", "terminal"])
def test_it_ends_with_what_is_known(
    ttrace: Run, tmp_path: Path, pair: list[Path], how: str
) -> None:
    process = begun(tmp_path / "state", 3, *pair, "--json", tmp_path / "report.json")
    if how == "terminal":  # reaches the supervising process and the one that works
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGTERM if how == "term" else signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == INCONCLUSIVE, (out, err)
    assert "warning" not in err  # there may be progress on a machine that is very slow
    first = re.match(r"INCONCLUSIVE  interrupted after (\d+) of 24 tensors; the same command ", out)
    assert first, out
    measured = int(first[1])
    assert 2 <= measured < TENSORS
    report = read_report(tmp_path / "report.json")
    assert report["counts"]["skipped_by_rule"] == TENSORS - measured
    assert report["counts"]["match"] == measured
    left = [r["reason"] for r in report["results"] if r["outcome"] == "skipped_by_rule"]
    assert set(left) == {"interrupted"}
    if how != "int":
        return
    done = ttrace("compare", *pair, "--resume", tmp_path / "state", "--json",
                  tmp_path / "again.json", timeout=SECONDS)  # fmt: skip
    check_match(done, TENSORS)
    ttrace("compare", *pair, "--json", tmp_path / "plain.json", timeout=SECONDS)
    told = json_but_environment(tmp_path / "again.json")
    assert told == json_but_environment(tmp_path / "plain.json")


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    slow = write_slow_tensor(tmp_path / "slow.h5")
    state = tmp_path / "state"
    report = tmp_path / "report.json"
    process = begun(state, 2, slow, slow, "--memory", "64M", "--json", report)
    process.send_signal(signal.SIGINT)
    # What comes within 300 ms is the same Ctrl-C, told twice.
    for _ in range(200):
        time.sleep(0.1)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=SECONDS)[0] == ""
    assert process.returncode == -signal.SIGINT
    assert not report.exists()


def test_an_interrupted_part_is_not_merged(ttrace: Run, tmp_path: Path, pair: list[Path]) -> None:
    file = tmp_path / "part1.json"
    process = begun(tmp_path / "state", 3, *pair, "--part", "1/1", "--json", file)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=SECONDS) == INCONCLUSIVE
    read_report(file)
    check_refused(ttrace("report", "merge", file), f"{file}: part 1 was interrupted; run it again")
