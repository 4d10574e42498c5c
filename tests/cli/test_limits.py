"""Bounds that real runs never meet, and what the system refuses, each in one sentence."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, UNUSABLE, ttrace_binary

from .conftest import Run
from .small_traces import check_refused, edit_manifest, write_pair

GIB = 1 << 30


def limited(limit: Callable[[], None], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ttrace_binary(), *arguments],
        capture_output=True,
        encoding="utf-8",
        preexec_fn=limit,
        timeout=60,
        check=False,
    )


# Bounds


def test_a_sparse_manifest_is_refused_before_it_is_read(ttrace: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    os.truncate(run / "manifest.json", 4 * GIB)
    begin = time.monotonic()
    for command in (["compare", reference], ["lint"], ["inspect"]):
        check_refused(ttrace(*command, run), f"{run}/manifest.json: has 4294967296 bytes", "1 GiB")
    rules = tmp_path / "rules.json"
    rules.touch()
    os.truncate(rules, 4 * GIB)
    check_refused(ttrace("lint", run, "--layout", rules), "4294967296 bytes")
    assert time.monotonic() - begin < 10


def test_a_sparse_manifest_within_a_file_is_refused(ttrace: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    large = tmp_path / "large.h5"
    with h5py.File(large, "w") as file:
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(2 * GIB)
        space = h5py.h5s.create(h5py.h5s.SCALAR)
        h5py.h5d.create(file.id, b"/manifest", kind, space)
    check_refused(ttrace("compare", large, run), f"{large}: /manifest: has 2147483648 bytes")


def test_large_meshes_are_refused_at_once(ttrace: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    text = (run / "manifest.json").read_text()

    def with_axes(*axes: dict) -> None:
        (run / "manifest.json").write_text(text)
        edit_manifest(run, lambda manifest: manifest["meshes"][""].update(axes=list(axes)))

    begin = time.monotonic()
    with_axes({"name": "dp", "size": 1 << 24})
    check_refused(ttrace("compare", reference, run), "more than 1048576 ranks")
    with_axes(*({"name": f"a{i}", "size": 1} for i in range(100_000)))
    check_refused(ttrace("compare", reference, run), "100000 axes, and at most 64 are read")
    check_refused(ttrace("lint", run), "100000 axes")
    assert time.monotonic() - begin < 10


# What the system refuses


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything: run as another user")
@pytest.mark.parametrize("name", ["ref.h5", "run/manifest.json", "run/rank_00001.h5", "run"])
def test_what_may_not_be_read_is_told(ttrace: Run, tmp_path: Path, name: str) -> None:
    reference, run = write_pair(tmp_path)
    (tmp_path / name).chmod(0)
    done = ttrace("compare", reference, run)
    (tmp_path / name).chmod(0o700)
    assert done.returncode in (UNUSABLE, INCONCLUSIVE)
    assert "permission denied: this user may not read it" in done.stderr


def as_nobody() -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_another_user_may_not_read_is_told(ttrace: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    binary = tmp_path / "ttrace"
    binary.write_bytes(ttrace_binary().read_bytes())
    binary.chmod(0o755)
    for folder in (*tmp_path.parents, tmp_path, run):
        if folder.owner() == "root" and folder != Path("/") and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)

    def compared() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [binary, "compare", reference, run],
            capture_output=True,
            encoding="utf-8",
            preexec_fn=as_nobody,
            check=False,
        )

    for path in (reference, run / "manifest.json", run / "rank_00001.h5", run):
        before = path.stat().st_mode
        path.chmod(0)
        done = compared()
        path.chmod(before)
        assert done.returncode in (UNUSABLE, INCONCLUSIVE), done
        assert "permission denied: this user may not read it" in done.stderr, (path, done.stderr)


def test_too_few_open_files_are_told(tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))

    done = limited(limit, "compare", reference, run)
    assert done.returncode in (UNUSABLE, INCONCLUSIVE)
    assert "as many files open as it may (4); allow it more with `ulimit -n`" in done.stderr


def test_too_little_memory_is_told(ttrace: Run, tmp_path: Path) -> None:
    """A manifest that needs more memory than there is: not std::bad_alloc, and no crash."""
    tensors = [
        {"name": f"t{i}", "kind": "param", "step": 0, "dtype": "float32", "shape": [1]}
        for i in range(400_000)
    ]
    manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": tensors}
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps(manifest))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (150 << 20, 150 << 20))

    done = limited(limit, "lint", run, "--manifest-only", "--memory", "64M")
    assert done.returncode == UNUSABLE, (done.returncode, done.stderr)
    assert done.stderr.startswith("ttrace: out of memory: the system gave no more (`ulimit -v` al")
    assert done.stderr.count("\n") == 1


# Numbers and names


def test_differences_of_large_integers_are_exact(ttrace: Run, tmp_path: Path) -> None:
    """Beyond 2^53, neighbours are the same binary64 number."""
    values = np.array([2**53, 2**60, -(2**62), 7], "<i8")
    paths = []
    for name, change in (("ref.h5", 0), ("run.h5", 1)):
        stored = values.copy()
        stored[2] += change
        manifest = {
            "schema": "ttrace.manifest/2",
            "meshes": {"": {"axes": []}},
            "tensors": [
                {"name": "ids", "kind": "index", "step": 0, "dtype": "int64", "shape": [4]}
            ],
        }
        with h5py.File(tmp_path / name, "w") as file:
            file["/step_000000/index/ids"] = stored
            file["manifest"] = json.dumps(manifest)
        paths.append(tmp_path / name)
    done = ttrace("compare", *paths, "--json", tmp_path / "report.json")
    assert done.returncode == DIVERGED, (done.stdout, done.stderr)
    assert "|d| = 1 at [2]" in done.stdout, done.stdout
    [result] = json.loads((tmp_path / "report.json").read_text())["results"]
    assert result["max_abs"]["value"] == 1
    assert result["max_abs"]["index"] == [2]


def test_names_that_turn_the_text_around_are_escaped(ttrace: Run, tmp_path: Path) -> None:
    _, run = write_pair(tmp_path)

    def rename(manifest: dict) -> None:
        for tensor in manifest["tensors"]:
            if tensor["name"] == "fc.weight":
                tensor["name"] = "fc\u202ethgiew\u200b"

    edit_manifest(run, rename)
    done = ttrace("inspect", run)
    assert "fc\\u202ethgiew\\u200b" in done.stdout
    assert "\u202e" not in done.stdout


def test_messages_have_a_limited_length(ttrace: Run, tmp_path: Path) -> None:
    _, run = write_pair(tmp_path)
    edit_manifest(run, lambda manifest: manifest.update({"x" * 100_000: 1}))
    done = ttrace("lint", run)
    check_refused(done, f"ttrace: {run}/manifest.json")
    assert len(done.stderr) < 2500


# Files that are damaged where the library does not look


@pytest.mark.parametrize("name", ["ref.h5", "run/rank_00001.h5"])
def test_damaged_attributes_give_the_same_report_each_time(
    ttrace: Run, tmp_path: Path, name: str
) -> None:
    write_pair(tmp_path)
    path = tmp_path / name
    with h5py.File(path, "r+") as file:  # chunks: no dataset is read past the library
        values = file["/step_000000/output/fc"][()]
        del file["/step_000000/output/fc"]
        chunked = file.create_dataset("/step_000000/output/fc", data=values, chunks=values.shape)
        chunked.attrs["ttrace_dtype"] = np.bytes_("float32")
    healthy = path.read_bytes()
    places = [at for at in range(len(healthy)) if healthy.startswith(b"ttrace_dtype", at)]
    assert places
    for place in places:
        # The lengths of the name, the type and the shape before it; the type's own length behind.
        for at in (*range(place - 8, place), *range(place + 16, place + 28)):
            damaged = bytearray(healthy)
            damaged[at] ^= 0x7F
            path.write_bytes(damaged)
            one, two = (
                ttrace("compare", tmp_path / "ref.h5", tmp_path / "run", "--quiet").stderr
                for _ in range(2)
            )
            assert one == two, (at - place, one, two)
    path.write_bytes(healthy)
