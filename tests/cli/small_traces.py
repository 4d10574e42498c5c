"""A small healthy pair of traces to break, and what a refusal must look like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
from conformance.write_trace import Tensor, write_candidate, write_reference
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, UNUSABLE

SHARDED = "/step_000000/output/fc"  # [6, 2], cut over the two ranks
COPIED = "/step_000000/param/fc.weight"  # [4], a copy on either rank


def tensors() -> list[Tensor]:
    numbers = np.arange(1, 13, dtype="<f4")
    return [
        Tensor("fc", "output", "float32", numbers.reshape(6, 2), {"shard": 0}),
        Tensor("fc.weight", "param", "float32", numbers[:4]),
        Tensor("loss", "loss", "float32", numbers[0].reshape(()), {"only": 0}),
    ]


def write_pair(folder: Path) -> tuple[Path, Path]:
    write_reference(folder / "ref.h5", tensors())
    write_candidate(folder / "run", tensors())
    return folder / "ref.h5", folder / "run"


def edit_manifest(run: Path, edit: Callable[[dict], object]) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))


def check_refused(done: CompletedProcess[str], *fragments: str | Path) -> None:
    """Exit code 2, nothing on stdout, one sentence on stderr."""
    assert done.returncode == UNUSABLE, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("ttrace: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")
    for fragment in fragments:
        assert str(fragment) in done.stderr, done.stderr


def check_inconclusive(
    done: CompletedProcess[str], *fragments: str | Path, warnings: int | None = None
) -> None:
    """Exit code 3, the reason in the first line, one sentence for each thing that is wrong."""
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing ")
    lines = done.stderr.splitlines()
    assert all(line.startswith("ttrace: warning: ") for line in lines), done.stderr
    if warnings is not None:
        assert len(lines) == warnings, done.stderr
    for fragment in fragments:
        assert str(fragment) in done.stderr + done.stdout, (done.stdout, done.stderr)


def check_diverged(done: CompletedProcess[str], first: str) -> None:
    check_answer(done, DIVERGED, "DIVERGED  ", first=f"{first}")


SWAPPED = "so they look swapped"  # of a warning for a reference with more ranks than the candidate


def check_match(
    done: CompletedProcess[str], count: int, *warnings: str, of: int | None = None
) -> None:
    """Exit code 0, and on stderr a line for each of `warnings`, and no other. of: how many tensors
    there are, where `count` were selected."""
    selected = f"{count} of {count} selected tensors agree (of {of})"
    check_answer(done, MATCH, f"MATCH  {count} tensor" if of is None else f"MATCH  {selected}")
    lines = done.stderr.splitlines()
    assert len(lines) == len(warnings), done.stderr
    for line, warning in zip(lines, warnings, strict=True):
        assert line.startswith("ttrace: warning: ") and warning in line, done.stderr


def check_answer(done: CompletedProcess[str], exit_code: int, start: str, first: str = "") -> None:
    """`first`: the beginning of the tensor that is wrong first."""
    assert done.returncode == exit_code, (done.returncode, done.stdout, done.stderr)
    assert done.stdout.startswith(start), done.stdout
    assert f"\n  first at {first}" in done.stdout or not first, done.stdout
