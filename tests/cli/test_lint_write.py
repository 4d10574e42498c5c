"""`ttrace lint --write`: a manifest.json made again from the parts that the rank files embed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import pytest
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA, UNUSABLE

from .conftest import Run
from .rank_parts import (
    RUNS,
    axes,
    canonical,
    copied,
    entry,
    manifest_of,
    part,
    rank_file,
    write_parts,
)
from .small_traces import check_answer, check_refused
from .test_damaged_bytes import damaged
from .test_damaged_file import damage_attributes


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A healthy run whose manifest.json was never written."""
    return copied("tp2sp", tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_the_rebuilt_manifest_is_the_one_that_was_lost(
    ttrace: Run, tmp_path: Path, name: str
) -> None:
    run = copied(name, tmp_path)
    done = ttrace("lint", "--write", run)
    check_answer(done, MATCH, "CLEAN  202 tensors over 2 ranks, 404 datasets\n")
    assert done.stdout.splitlines()[1:] == [
        f"WROTE  {run}/manifest.json from the parts of 2 of 2 ranks"
    ]
    assert done.stderr == ""
    assert canonical(manifest_of(run)) == canonical(manifest_of(TESTDATA / name))
    assert len(list(run.iterdir())) == 3
    first = (run / "manifest.json").read_bytes()
    (run / "manifest.json").unlink()
    done = ttrace("lint", run, "--write", "--manifest-only")
    check_answer(done, MATCH, "CLEAN  202 tensors over 2 ranks, the layout alone\nWROTE  ")
    assert (run / "manifest.json").read_bytes() == first


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_run_without_one_of_its_ranks_is_readable_and_no_match(
    ttrace: Run, tmp_path: Path, name: str, rank: int
) -> None:
    run = copied(name, tmp_path)
    rank_file(run, rank).unlink()
    done = ttrace("lint", "--write", run)
    check_answer(done, DIVERGED, "FINDINGS  2 in ")
    assert done.stdout.splitlines()[1].endswith("from the parts of 1 of 2 ranks")
    assert f"{rank_file(run, rank)}: No such file or directory" in done.stdout
    assert f"no part of the manifest from rank {rank}: " in done.stdout
    # The layout alone tells of lost ranks too.
    (run / "manifest.json").unlink()
    done = ttrace("lint", "--write", "--manifest-only", run)
    check_answer(done, DIVERGED, "FINDINGS  1 in ")
    cut = [e for e in manifest_of(run)["tensors"] if "shard" in str(e.get("placements"))]
    assert cut
    assert not any("held_at" in e for e in cut)
    done = ttrace("compare", TESTDATA / "ref.h5", run)
    assert done.returncode in (DIVERGED, INCONCLUSIVE)
    assert not done.stdout.startswith("MATCH")
    assert str(rank_file(run, rank)) in done.stderr


def test_what_is_there_is_not_replaced(ttrace: Run, lost: Path) -> None:
    manifest = lost / "manifest.json"
    for content in ("{}", '{"schema": "ttrace.manifest/2"}', "[1, 2]"):
        manifest.write_text(content)
        check_refused(ttrace("lint", "--write", lost), f"{manifest}: is there already", "move it")
        assert manifest.read_text() == content
    manifest.unlink()
    manifest.mkdir()
    check_refused(ttrace("lint", "--write", lost), f"{manifest}: is there already")
    manifest.rmdir()
    os.mkfifo(manifest)
    check_refused(ttrace("lint", "--write", lost), f"{manifest}: is there already")
    manifest.unlink()
    assert len(list(lost.iterdir())) == 2


@pytest.mark.parametrize("kept", [0, 1, 1000])
def test_a_manifest_that_its_writer_did_not_finish_is_replaced(
    ttrace: Run, lost: Path, kept: int
) -> None:
    whole = (TESTDATA / "tp2sp" / "manifest.json").read_text()
    (lost / "manifest.json").write_text(whole[:kept])
    check_answer(ttrace("lint", "--write", lost), MATCH, "CLEAN  202 tensors")
    assert canonical(manifest_of(lost)) == canonical(json.loads(whole))


def test_a_link_is_neither_replaced_nor_followed(ttrace: Run, lost: Path) -> None:
    outside = lost.parent / "outside.json"
    manifest = lost / "manifest.json"
    manifest.symlink_to(outside)
    check_refused(ttrace("lint", "--write", lost), f"{manifest}: is there already")
    assert not outside.exists()
    assert manifest.is_symlink()


def test_files_and_folders_that_have_no_manifest_to_rebuild(ttrace: Run, tmp_path: Path) -> None:
    single = TESTDATA / "ref.h5"
    check_refused(ttrace("lint", "--write", single), f"{single} is a file", "directory")
    absent = tmp_path / "absent"
    check_refused(ttrace("lint", "--write", absent), f"{absent}: No such file or directory")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "rank_1.h5").write_text("")
    (empty / "rank_00001.h5.tmp").write_text("")
    (empty / "rank_99999999999999999999999.h5").write_text("")
    check_refused(ttrace("lint", "--write", empty), f"{empty}: no files of ranks")
    assert not (empty / "manifest.json").exists()


@pytest.mark.parametrize("content", [b"", b"\0no HDF5", None])
def test_a_rank_file_that_cannot_be_read_is_lost_and_told_once(
    ttrace: Run, lost: Path, content: bytes | None
) -> None:
    path = rank_file(lost, 1)
    if content is None:
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.write_bytes(content)
    done = ttrace("lint", "--write", lost)
    check_answer(done, DIVERGED, "FINDINGS  2 in ")
    assert done.stdout.count(f"{path}: not a readable HDF5 file") == 1
    assert "no part of the manifest from rank 1: " in done.stdout
    rank_file(lost, 0).write_bytes(b"no HDF5 either")
    (lost / "manifest.json").unlink()
    done = ttrace("lint", "--write", lost)
    check_refused(done, f"{lost}: no part of the manifest in 2 rank files", rank_file(lost, 0))
    assert not (lost / "manifest.json").exists()


def test_a_rank_file_on_which_hdf5_would_crash_is_told_and_the_rest_is_written(
    ttrace: Run, lost: Path
) -> None:
    damage_attributes(rank_file(lost, 1))
    done = ttrace("lint", "--write", lost)
    check_answer(done, DIVERGED, "FINDINGS  ")
    assert str(rank_file(lost, 1)) in done.stdout
    assert "WROTE  " in done.stdout
    assert "defect" not in done.stderr
    assert len(manifest_of(lost)["tensors"]) == 202
    assert len(list(lost.iterdir())) == 3


@pytest.mark.parametrize(
    "value, why",
    [
        ("", "/manifest"),
        ("{", "/manifest"),
        ("[]", "/manifest"),
        ('{"schema": "ttrace.manifest/9"}', "ttrace.manifest/9"),
        (part(entry(dtype="float3")), 'unknown dtype "float3"'),
    ],
)
def test_a_part_that_is_no_manifest_is_lost(
    ttrace: Run, tmp_path: Path, value: dict | str, why: str
) -> None:
    run = write_parts(tmp_path / "run", {0: part(entry()), 1: value})
    done = ttrace("lint", "--write", "--manifest-only", run)
    check_answer(done, DIVERGED, "FINDINGS  2 in 1 tensor over 2 ranks")
    assert f"{rank_file(run, 1)}: " in done.stdout
    assert why in done.stdout


def test_parts_that_are_elsewhere_or_someone_elses_are_lost(ttrace: Run, tmp_path: Path) -> None:
    run = write_parts(tmp_path / "run", {0: part(entry()), 1: part(entry())})
    path = rank_file(run, 1)

    def check_lost(why: str) -> None:
        (run / "manifest.json").unlink(missing_ok=True)
        done = ttrace("lint", "--write", "--manifest-only", run)
        check_answer(done, DIVERGED, "FINDINGS  2 in 1 tensor over 2 ranks")
        assert f"{path}: {why}" in done.stdout, done.stdout

    with h5py.File(path, "a") as file:
        file.attrs["ttrace_rank"] = 0
    check_lost("was written by rank 0")
    with h5py.File(path, "w") as file:
        file["manifest"] = h5py.ExternalLink("rank_00000.h5", "/manifest")
    check_lost("/manifest: a soft or external link")
    with h5py.File(path, "w") as file:
        file["elsewhere"] = json.dumps(part(entry()))
        file["manifest"] = h5py.SoftLink("/elsewhere")
    check_lost("/manifest: a soft or external link")
    with h5py.File(path, "w") as file:
        file["x"] = 1
    check_lost("/manifest: there is no such dataset")
    path.unlink()
    path.symlink_to(path)
    check_lost("")
    path.unlink()
    path.mkdir()
    check_lost("not a regular file")
    path.rmdir()
    os.mkfifo(path)
    check_lost("not a regular file")


def test_a_rank_file_may_be_a_link(ttrace: Run, tmp_path: Path) -> None:
    parts = {0: part(entry()), 1: part(entry())}
    run = write_parts(tmp_path / "run", parts)
    rank_file(run, 1).rename(tmp_path / "on_another_disk.h5")
    rank_file(run, 1).symlink_to(tmp_path / "on_another_disk.h5")
    check_answer(ttrace("lint", "--write", "--manifest-only", run), MATCH, "CLEAN  1 tensor over 2")


@pytest.mark.parametrize(
    "parts, why",
    [
        (
            {0: part(entry()), 1: part(entry(shape=[5]))},
            ["a · output · step 0: rank 0 says shape is [4], rank 1 says [5]"],
        ),
        (
            {0: part(entry(placements={"tp": {"shard": 0}})), 1: part()},
            ["a · output · step 0: cut over axis tp", "coordinate [0] of 2", "(rank 0)"],
        ),
        (
            {0: part(), 1: part(meshes={"": axes(tp=4)}), 2: part(meshes={"": axes(tp=4)})},
            ["rank 0 says the meshes are tp 2, ranks {1, 2} say tp 4", "two runs"],
        ),
        ({0: part(), 1: part(), 7: part()}, ["rank 7 lies on no mesh of the run (tp 2)"]),
    ],
)
def test_contradictions_are_one_sentence(
    ttrace: Run, tmp_path: Path, parts: dict[int, dict | str], why: list[str]
) -> None:
    run = write_parts(tmp_path / "run", parts)
    check_refused(ttrace("lint", "--write", run), f"{run}: ", *why)
    assert not list(run.glob("manifest.json*"))


def test_several_meshes(ttrace: Run, tmp_path: Path) -> None:
    meshes = {
        "": axes(pp=2, tp=2),
        "expert": axes(pp=2, ep=2) | {"ranks": [1, 0, 3, 2]},
        "last": axes(tp=2) | {"ranks": [2, 3]},
    }
    expert = entry("e", mesh="expert", placements={"ep": {"flat": [[0, 1], [1, 4]]}})
    last = entry("l", mesh="last", placements={"tp": {"partial": "sum"}})
    holds = {0: [entry(order=3)], 1: [entry(order=2)], 2: [expert, last], 3: [expert, last]}
    parts = {rank: part(*tensors, meshes=meshes) for rank, tensors in holds.items()}
    run = write_parts(tmp_path / "run", parts)
    done = ttrace("lint", "--write", "--manifest-only", run)
    check_answer(done, MATCH, "CLEAN  3 tensors over 4 ranks")
    whole = manifest_of(run)
    assert canonical(whole)["meshes"] == meshes
    by_name = {e["name"]: e for e in whole["tensors"]}
    assert by_name == {
        "a": entry(order=2, held_at={"pp": [0]}),
        "e": {**expert, "held_at": {"pp": [1]}},
        "l": last,
    }


def test_no_damaged_byte_is_a_crash(ttrace: Run, lost: Path) -> None:
    path = rank_file(lost, 1)
    healthy = path.read_bytes()
    answers = set()
    for seed in range(25):
        path.write_bytes(damaged(healthy, seed))
        (lost / "manifest.json").unlink(missing_ok=True)
        done = ttrace("lint", "--write", lost, timeout=30)
        context = (seed, done.returncode, done.stderr)
        assert done.returncode in (MATCH, DIVERGED, UNUSABLE), context
        assert "defect in ttrace" not in done.stderr, context
        assert (lost / "manifest.json").exists() == (done.returncode != UNUSABLE), context
        assert not list(lost.glob("*.tmp")), context
        answers.add(done.returncode)
    assert len(answers) > 1  # the damage was noticed
