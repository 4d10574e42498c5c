"""Replays need what others measured: the norm of all gradients tells how they are clipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.same_report import json_but_environment, text_but_environment
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from support.update_run import Case, Fault, train, write

CASES = {
    "clipped": Case("adamw", clip_norm=0.5),
    "recorded_clipped": Case("adamw", {"eps": 1e-3}, clip_norm=0.5, record_clipped=True),
    "unclipped": Case("sgd", {"momentum": 0.9}),
}


@pytest.mark.parametrize("of", [2, 5])
@pytest.mark.parametrize("stale", ["", "fc.weight"], ids=["healthy", "stale"])
@pytest.mark.parametrize("name", CASES)
def test_parts(name: str, stale: str, of: int, tmp_path: Path) -> None:
    ref = write(tmp_path / "ref.h5", train(CASES[name]))
    run = write(tmp_path / "run", train(CASES[name], Fault(stale=stale)), zero=2)
    whole = run_ttrace("compare", ref, run, "--json", tmp_path / "whole.json")
    assert whole.returncode == (DIVERGED if stale else MATCH), whole.stdout
    files = [tmp_path / f"part{i}.json" for i in range(1, of + 1)]
    for i, file in enumerate(files, 1):
        run_ttrace("compare", ref, run, "--part", f"{i}/{of}", "--json", file)
    merged = run_ttrace("report", "merge", *files, "--json", tmp_path / "merged.json")
    assert merged.returncode == whole.returncode, merged.stderr
    assert text_but_environment(merged.stdout) == text_but_environment(whole.stdout)
    told = json_but_environment(tmp_path / "merged.json")
    assert told == json_but_environment(tmp_path / "whole.json")


def test_going_on(tmp_path: Path) -> None:
    ref = write(tmp_path / "ref.h5", train(CASES["clipped"]))
    run = write(tmp_path / "run", train(CASES["clipped"], Fault(stale="fc.bias")), zero=2)
    command = ["compare", ref, run, "--resume", tmp_path / "state", "--json"]
    run_ttrace(*command, tmp_path / "whole.json")
    lines = (tmp_path / "state").read_bytes().splitlines(keepends=True)
    for known in range(len(lines) + 1):
        (tmp_path / "state").write_bytes(b"".join(lines[:known]))
        assert run_ttrace(*command, tmp_path / "again.json").returncode == DIVERGED
        told = json_but_environment(tmp_path / "again.json")
        assert told == json_but_environment(tmp_path / "whole.json"), known
        assert sorted((tmp_path / "state").read_bytes().splitlines(keepends=True)) == sorted(lines)
