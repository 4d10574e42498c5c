"""A manifest of a few bytes that claims many ranks costs what it holds, not what it claims."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_cases import chosen
from support.ttrace_cli import TESTDATA, ttrace_binary

# Prints exit code, memory and processor seconds of a command, started by a process that is small:
# its memory before it is replaced counts too.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, round(used.ru_utime + used.ru_stime))
"""
# Ranks -> the most megabytes and processor seconds. A list of a million ranks has 8 MB; before,
# compare took 595 MB and 27 s for them.
CLAIMS = chosen("a claim of a million ranks", {1 << 18: (80, 3)}, {1 << 20: (250, 10)})


@pytest.fixture(scope="module", params=CLAIMS)
def claim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("claims") / str(request.param)
    run.mkdir()
    weight = {"step": 0, "kind": "param", "name": "w", "dtype": "float32", "shape": [4]}
    manifest = {
        "schema": "ttrace.manifest/2",
        "run": {"framework": "x", "model": "m", "precision": "fp32", "collector": "c"},
        "meshes": {"": {"axes": [{"name": "dp", "size": request.param}]}},
        "tensors": [{**weight, "placements": {}}],
        "modules": [],
    }
    (run / "manifest.json").write_text(json.dumps(manifest))
    return run


@pytest.mark.parametrize("command", ["lint", "inspect", "compare", "localize", "audit", "merge"])
def test_many_ranks_without_files(claim: Path, tmp_path: Path, command: str) -> None:
    ranks = int(claim.name)
    most_megabytes, most_seconds = CLAIMS[ranks]
    arguments: list[str | Path] = [command, claim]
    if command in ("compare", "localize"):
        arguments = [command, TESTDATA / "ref.h5", claim]
    if command == "merge":
        arguments += ["-o", tmp_path / "merged.h5"]
    said = tmp_path / "said"
    with said.open("w") as out:
        done = subprocess.run(
            [sys.executable, "-S", "-c", MEASURE, ttrace_binary(), *arguments],
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
        )
    code, kilobytes, seconds = map(int, done.stdout.split())
    assert code in ((0,) if command == "inspect" else (1, 3)), said.read_text()[:2000]
    assert kilobytes / 1024 < most_megabytes
    assert seconds < most_seconds
    text = said.read_text()
    assert text.count("\n") < 300
    if command == "lint":
        assert f"{ranks - 100} more ranks cannot be read" in " ".join(text.split())
