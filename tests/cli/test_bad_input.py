"""Files and manifests that cannot be used: one clear sentence, the right exit code, no crash."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.text_report import evidence

from .conftest import Run
from .small_traces import (
    SHARDED,
    SWAPPED,
    check_diverged,
    check_inconclusive,
    check_match,
    check_refused,
    edit_manifest,
    write_pair,
)

SECONDS = 20


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return write_pair(tmp_path)


@pytest.fixture
def compare(ttrace: Run) -> Run:
    return lambda *arguments: ttrace("compare", *arguments, timeout=SECONDS)


def test_the_pair_is_healthy(compare: Run, pair: tuple[Path, Path]) -> None:
    check_match(compare(*pair), 3)


def test_missing_files(compare: Run, ttrace: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    absent = run.parent / "absent"
    for done in (compare(absent, run), compare(reference, absent)):
        check_refused(done, f"{absent}: ", "o such file or directory")
    check_refused(compare(reference, run, "--noise", absent), f"{absent}: ")
    for command in (["inspect", absent], ["lint", absent], ["merge", absent, "-o", run / "x.h5"]):
        check_refused(ttrace(*command), f"{absent}: ")
    assert not (run / "x.h5").exists()


@pytest.mark.parametrize("content", [b"", b"\0", b"\x89HDF\r\n\x1a\n", b"\xff\0" * 5_000])
def test_files_that_are_not_hdf5(compare: Run, pair: tuple[Path, Path], content: bytes) -> None:
    reference, run = pair
    reference.write_bytes(content)
    check_refused(compare(reference, run), f"{reference}: not a readable HDF5 file")


def test_an_hdf5_file_that_is_no_trace(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    with h5py.File(reference, "w") as file:
        file["x"] = 1
    check_refused(compare(reference, run), f"{reference}: /manifest: there is no such dataset")
    with h5py.File(reference, "w") as file:
        file["manifest"] = np.arange(3)
    check_refused(compare(reference, run), f"{reference}: /manifest: not a single string")
    with h5py.File(reference, "w") as file:
        file.create_group("manifest")
    check_refused(compare(reference, run), f"{reference}: /manifest: not a dataset")


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_truncated_files(compare: Run, pair: tuple[Path, Path], kept: float) -> None:
    reference, run = pair
    rank_file = run / "rank_00001.h5"
    os.truncate(rank_file, int(kept * rank_file.stat().st_size))
    check_inconclusive(compare(reference, run), f"{rank_file}: not a readable HDF5", warnings=2)
    os.truncate(reference, int(kept * reference.stat().st_size))
    check_refused(compare(reference, run), f"{reference}: not a readable HDF5")


def test_lost_rank_files(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    (run / "rank_00001.h5").unlink()
    check_inconclusive(
        compare(reference, run),
        "1 of 2 ranks of the candidate could not be read, so 2 of 3 tensors were not checked",
        f"{run}/rank_00001.h5: No such file",
        warnings=2,
    )
    (run / "rank_00000.h5").unlink()
    check_inconclusive(compare(reference, run), "so 3 of 3 tensors were not checked", warnings=3)
    done = compare(run, reference)
    check_inconclusive(done, "2 of 2 ranks of the reference", SWAPPED, warnings=4)


def test_swapped_rank_files(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    first, second = run / "rank_00000.h5", run / "rank_00001.h5"
    first.rename(run / "aside")
    second.rename(first)
    (run / "aside").rename(second)
    done = compare(reference, run)
    check_inconclusive(done, f"{first}: was written by rank 1", f"{second}: was written by rank 0")


def test_swapped_rank_files_that_do_not_say_so_diverge(
    compare: Run, pair: tuple[Path, Path]
) -> None:
    reference, run = pair
    first, second = run / "rank_00000.h5", run / "rank_00001.h5"
    for path in (first, second):
        with h5py.File(path, "a") as file:
            del file.attrs["ttrace_rank"]
    shutil.move(first, run / "aside")
    shutil.move(second, first)
    shutil.move(run / "aside", second)
    check_diverged(compare(reference, run), "fc · output · step 0")


def test_a_rank_file_that_is_no_file(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    rank_file = run / "rank_00001.h5"
    rank_file.unlink()
    rank_file.mkdir()
    check_inconclusive(compare(reference, run), f"{rank_file}: not a regular file", warnings=2)
    rank_file.rmdir()
    os.mkfifo(rank_file)
    check_inconclusive(compare(reference, run), f"{rank_file}: not a regular file", warnings=2)


def test_fifos_and_devices_block_nothing(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    fifo = run.parent / "fifo"
    os.mkfifo(fifo)
    check_refused(compare(fifo, run), f"{fifo}: not a regular file")
    check_refused(compare("/dev/zero", run), "/dev/zero: not a regular file")
    (run / "manifest.json").unlink()
    os.mkfifo(run / "manifest.json")
    check_refused(compare(reference, run), f"{run}/manifest.json: not a regular file")


def test_a_directory_without_a_manifest(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    manifest = run / "manifest.json"
    manifest.unlink()
    way_out = f"`ttrace lint --write {run}` rebuilds it"
    check_refused(compare(reference, run), f"{manifest}: there is no such file", way_out)
    manifest.mkdir()
    check_refused(compare(reference, run), f"{manifest}: not a regular file")


def first_tensor(manifest: dict, **changes: object) -> None:
    manifest["tensors"][0].update(changes)


MANIFEST_TEXTS = {
    "empty": (b"", "is empty"),
    "not JSON": (b"{tensors: 1}", "not valid JSON"),
    "cut off": (b'{"schema": "ttrace.manifest/2", "mesh', "not valid JSON"),
    "two values": (b"{} {}", "not valid JSON"),
    "a list": (b"[]", "expected an object"),
    "not UTF-8": (b'{"schema": "\xff\xfe"}', "not valid JSON"),
    "UTF-16": ('{"schema": "ttrace.manifest/2"}'.encode("utf-16"), "not valid JSON"),
    "deep list": (b"[" * 1_000_000, "nested deeper than 64"),
    "deep object": (b'{"a":' * 300_000 + b"1" + b"}" * 300_000, "nested deeper than 64"),
    "a huge number": (b'{"schema": 1e999}', "not valid JSON"),
    "a key twice": (b'{"schema": "ttrace.manifest/2", "schema": "x"}', "stands twice"),
    "only NULs": (bytes(1000), "not valid JSON"),
}


@pytest.mark.parametrize("name", MANIFEST_TEXTS)
def test_manifests_that_are_no_json(
    compare: Run, ttrace: Run, pair: tuple[Path, Path], name: str
) -> None:
    reference, run = pair
    text, reason = MANIFEST_TEXTS[name]
    (run / "manifest.json").write_bytes(text)
    for done in (compare(reference, run), compare(run, reference), ttrace("lint", run)):
        check_refused(done, f"{run}/manifest.json: ", reason)
    with h5py.File(reference, "a") as file:
        del file["manifest"]
        file["manifest"] = np.bytes_(text + b" ")
    check_refused(compare(reference, run), f"{reference}: /manifest: ")


Edit = Callable[[dict], object]
MANIFEST_EDITS: dict[str, tuple[Edit, str, str]] = {
    "later version": (lambda m: m.update(schema="ttrace.manifest/9"), "/schema", "manifest/9"),
    "unknown key": (lambda m: m.update(tensor=[]), "/tensor", "unknown key"),
    "unknown key of a tensor": (
        lambda m: first_tensor(m, placement={}), "/tensors/0/placement", "unknown key",
    ),
    "same key twice": (
        lambda m: m["tensors"].append(dict(m["tensors"][0])), "/tensors/3", "the same key as",
    ),
    "name that climbs": (lambda m: first_tensor(m, name="../x"), "/tensors/0/name", '"/"'),
    "absolute name": (lambda m: first_tensor(m, name="/abs"), "/tensors/0/name", '"/"'),
    "name through the parent": (
        lambda m: first_tensor(m, name="a/../b"), "/tensors/0/name", '"/"',
    ),
    "parent as a name": (lambda m: first_tensor(m, name=".."), "/tensors/0/name", "leave"),
    "terminal escape in a name": (
        lambda m: first_tensor(m, name="\x1b[2J"), "/tensors/0/name", "control character",
    ),
    "name that is a NUL": (
        lambda m: first_tensor(m, name="\0"), "/tensors/0/name", "control character",
    ),
    "extent beyond 64 bits": (
        lambda m: first_tensor(m, shape=[2**63, 2]), "/tensors/0/shape", "overflows 64 bits",
    ),
    "extent beyond JSON's integers": (
        lambda m: first_tensor(m, shape=[2**64]), "/tensors/0/shape/0", "whole number",
    ),
    "too many dimensions": (
        lambda m: first_tensor(m, shape=[1] * 100), "/tensors/0/shape", "at most 32",
    ),
    "shard sizes that do not add up": (
        lambda m: first_tensor(m, placements={"tp": {"shard": 0, "sizes": [3, 2]}}),
        "/tensors/0/placements/tp", "add up to 5",
    ),
    "shard sizes that wrap around": (
        lambda m: first_tensor(m, placements={"tp": {"shard": 0, "sizes": [2**63, 2**63 + 6]}}),
        "/tensors/0/placements/tp", "overflow",
    ),
    "shard of a dimension that is not there": (
        lambda m: first_tensor(m, placements={"tp": {"shard": 2}}), "/tensors/0/placements/tp",
        "dimension 2",
    ),
    "axis that is not there": (
        lambda m: first_tensor(m, placements={"dp": "replicate"}), "/tensors/0/placements/dp",
        "no axis",
    ),
    "mesh that is not there": (
        lambda m: first_tensor(m, mesh="expert"), "/tensors/0", 'no mesh "expert"',
    ),
    "more ranks than there can be": (
        lambda m: m["meshes"][""].update(axes=[{"name": "tp", "size": 2**40}]), "/meshes/", "more",
    ),
    "escape in an unknown dtype": (
        lambda m: first_tensor(m, dtype="\x1b[31mred"), "/tensors/0/dtype", "\\x1b[31mred",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFEST_EDITS)
def test_manifests_that_say_what_cannot_be(
    compare: Run, pair: tuple[Path, Path], name: str
) -> None:
    reference, run = pair
    edit, pointer, reason = MANIFEST_EDITS[name]
    edit_manifest(run, edit)
    done = compare(reference, run)
    check_refused(done, str(run), pointer, reason)
    assert "\x1b" not in done.stderr


def test_a_huge_shape_is_not_allocated(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    edit_manifest(run, lambda m: first_tensor(m, shape=[2**59, 2], placements={"tp": {"shard": 0}}))
    done = compare(reference, run)
    check_diverged(done, "fc · output · step 0")
    assert f"candidate [{2**59}, 2] f32" in evidence(done.stdout)["shapes"]
    with h5py.File(reference, "a") as file:
        manifest = json.loads(file["manifest"][()])
        first_tensor(manifest, shape=[2**59, 2])
        del file["manifest"]
        file["manifest"] = json.dumps(manifest)
    check_inconclusive(
        compare(reference, run), f"{SHARDED}: dataset is [6, 2] f32, the manifest's placement gives"
    )


def test_a_single_file_of_many_ranks(compare: Run, pair: tuple[Path, Path]) -> None:
    reference, run = pair
    with h5py.File(reference, "a") as file:
        manifest = json.loads(file["manifest"][()])
        manifest["meshes"][""]["axes"] = [{"name": "tp", "size": 2}]
        del file["manifest"]
        file["manifest"] = json.dumps(manifest)
    check_refused(
        compare(reference, run), f"{reference}: /manifest", "a single file holds one rank"
    )


def test_names_reach_the_terminal_harmlessly(ttrace: Run, tmp_path: Path) -> None:
    folder = tmp_path / "evil\x1b[2J"
    folder.mkdir()
    reference, run = write_pair(folder)
    edit_manifest(
        run, lambda m: m.update(run={"model": "\x1b]0;title\x07", "precision": "\x9b31m"})
    )
    for arguments in (["compare", reference, run], ["inspect", run], ["lint", run / "x\x1b"]):
        done = ttrace(*arguments)
        said = done.stdout + done.stderr
        assert said
        assert not {c for c in said if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0} - {"\n"}, said
