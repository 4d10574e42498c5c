"""--memory: traces many times as large are compared within it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.ttrace_cli import MATCH, ttrace_binary

from .conftest import Run
from .small_traces import check_refused

LIMIT = 64 << 20
# Of the program, its libraries and the manifests, which the limit does not count.
PROGRAM = 40 << 20
ROWS, COLUMNS = 1 << 16, 2560
BYTES = ROWS * COLUMNS * 4


# By a small process of its own: what a process was before it became the program counts too, and
# pytest is large.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def peak_memory(*arguments: str | Path) -> tuple[int, int]:
    """Exit code and the largest resident size of any process of the run, in bytes."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, ttrace_binary(), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    exit_code, peak = done.stdout.split()
    return int(exit_code), int(peak)


def write(path: Path, chunked: bool) -> Path:
    """Zeros that take no disk: a hole, or the same deflated chunk again and again."""
    tensor = {"name": "w", "kind": "output", "step": 0, "dtype": "float32"}
    tensor["shape"] = [ROWS, COLUMNS]
    manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": [tensor]}
    with h5py.File(path, "w") as file:
        file["manifest"] = json.dumps(manifest)
        where = "/step_000000/output/w"
        if not chunked:
            created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            created.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            created.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            file.create_group("/step_000000/output")
            space = h5py.h5s.create_simple((ROWS, COLUMNS))
            h5py.h5d.create(file.id, where.encode(), h5py.h5t.IEEE_F32LE, space, created)
            return path
        made = file.create_dataset(
            where, (ROWS, COLUMNS), "<f4", chunks=(1024, 256), compression="gzip"
        )
        chunk = zlib.compress(np.zeros((1024, 256), "<f4").tobytes(), 1)
        for row in range(0, ROWS, 1024):
            for column in range(0, COLUMNS, 256):
                made.id.write_direct_chunk((row, column), chunk)
    return path


@pytest.mark.parametrize("chunked", [False, True])
def test_a_trace_twenty_times_as_large(chunked: bool, tmp_path: Path) -> None:
    reference = write(tmp_path / "ref.h5", chunked)
    candidate = write(tmp_path / "candidate.h5", chunked)
    assert 2 * BYTES >= 20 * LIMIT
    exit_code, peak = peak_memory("compare", reference, candidate, "--memory", "64M", "--quiet")
    assert exit_code == MATCH
    assert peak < LIMIT + PROGRAM


def test_more_threads_than_there_is_memory_for_are_not_begun(ttrace: Run, tmp_path: Path) -> None:
    values = np.arange(6, dtype="<f4").reshape(2, 3) + 1
    path = tmp_path / "ref.h5"
    tensor = {"name": "w", "kind": "output", "step": 0, "dtype": "float32", "shape": [2, 3]}
    manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": [tensor]}
    with h5py.File(path, "w") as file:
        file["manifest"] = json.dumps(manifest)
        file["/step_000000/output/w"] = values
    other = shutil.copy(path, tmp_path / "other.h5")
    done = ttrace("compare", path, other, "--threads", "50", "--memory", "64M")
    assert done.returncode == MATCH
    assert ", 2 threads ·" in done.stdout


def test_chunks_that_do_not_fit_are_named(ttrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "ref.h5"
    tensor = {"name": "w", "kind": "output", "step": 0, "dtype": "float32", "shape": [4 << 20]}
    manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": [tensor]}
    with h5py.File(path, "w") as file:
        file["manifest"] = json.dumps(manifest)
        made = file.create_dataset(
            "/step_000000/output/w", (4 << 20,), "<f4", chunks=(4 << 20,), compression="gzip"
        )
        made.id.write_direct_chunk((0,), zlib.compress(np.ones(4 << 20, "<f4").tobytes(), 1))
    other = shutil.copy(path, tmp_path / "other.h5")
    done = ttrace("compare", path, other, "--memory", "64M")
    assert done.returncode == 3
    assert "chunks of 16.8 MB need more memory" in done.stderr
    assert "--memory" in done.stderr
    assert ttrace("compare", path, other).returncode == MATCH


@pytest.mark.parametrize("size", ["", "much", "1e9", "-1G", "63M", "999999999T"])
def test_a_size_that_is_none_or_too_small_is_refused(ttrace: Run, size: str) -> None:
    check_refused(ttrace("--memory", size, "inspect", "x.h5"), "--memory")
