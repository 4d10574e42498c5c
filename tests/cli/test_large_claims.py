"""A manifest of a few bytes that claims a million ranks costs what it holds, not what it claims."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.ttrace_cli import TESTDATA, ttrace_binary

# Prints the exit code and the memory of a command, which a fork of this process would count too.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
RANKS = 1 << 20
# Of these, 8 MB are a list of the ranks; the numbers below leave room for a busy machine.
MOST_MB = 250
MOST_SECONDS = 20


@pytest.fixture(scope="module")
def claim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("claims") / "run"
    run.mkdir()
    weight = {"step": 0, "kind": "param", "name": "w", "dtype": "float32", "shape": [4]}
    manifest = {
        "schema": "ttrace.manifest/2",
        "run": {"framework": "x", "model": "m", "precision": "fp32", "collector": "c"},
        "meshes": {"": {"axes": [{"name": "dp", "size": RANKS}]}},
        "tensors": [{**weight, "placements": {}}],
        "modules": [],
    }
    (run / "manifest.json").write_text(json.dumps(manifest))
    return run


@pytest.mark.parametrize("command", ["lint", "inspect", "compare", "localize", "audit", "merge"])
def test_a_million_ranks_without_files(claim: Path, tmp_path: Path, command: str) -> None:
    arguments: list[str | Path] = [command, claim]
    if command in ("compare", "localize"):
        arguments = [command, TESTDATA / "ref.h5", claim]
    if command == "merge":
        arguments += ["-o", tmp_path / "merged.h5"]
    said = tmp_path / "said"
    started = time.monotonic()
    with said.open("w") as out:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, ttrace_binary(), *arguments],
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
        )
    code, kilobytes = map(int, done.stdout.split())
    assert code in ((0,) if command == "inspect" else (1, 3)), said.read_text()[:2000]
    assert kilobytes / 1024 < MOST_MB
    assert time.monotonic() - started < MOST_SECONDS
    text = said.read_text()
    assert text.count("\n") < 300
    if command == "lint":
        assert f"{RANKS - 100} more ranks cannot be read" in text.replace("\n  ", " ")
