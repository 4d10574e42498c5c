"""Every rank's file says of which run it is; one of another run is lost, by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.safetensors_file import convert
from support.ttrace_cli import INCONCLUSIVE, MATCH, TESTDATA, UNUSABLE

from .conftest import Run
from .small_traces import check_refused, edit_manifest

REF = TESTDATA / "ref.h5"
TUESDAY = "9f3c0a55d1b24c1d8e3f6a7b8c9d0e1f"
# Where a file says its run: the stamp, the manifest inside, both.
PLACES = ("stamp", "manifest", "both")
REMARK = "does not say of which run it is"


def say_run(file: Path, where: str, identity: str) -> None:
    with h5py.File(file, "r+") as opened:
        part = json.loads(opened["manifest"][()])
        del opened["manifest"]
        part["run"].pop("id", None)
        if where in ("manifest", "both"):
            part["run"]["id"] = identity
        opened["manifest"] = json.dumps(part)
        opened.attrs.pop("ttrace_run", None)
        if where in ("stamp", "both"):
            opened.attrs["ttrace_run"] = np.bytes_(identity)


def recorded(folder: Path, where: str = "both", identity: str = TUESDAY) -> Path:
    """A healthy run of two ranks, with that id."""
    run = Path(shutil.copytree(TESTDATA / "tp2sp", folder))
    edit_manifest(run, lambda manifest: manifest["run"].update(id=identity))
    for rank in range(2):
        say_run(run / f"rank_{rank:05d}.h5", where, identity)
    return run


def rank_1(run: Path) -> Path:
    return next(iter(run.glob("rank_00001.*")))


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("storage", ["hdf5", "safetensors"])
def test_a_whole_run_is_read_without_a_word(
    tmp_path: Path, ttrace: Run, storage: str, where: str
) -> None:
    run = recorded(tmp_path / "run", where)
    if storage == "safetensors":
        convert(rank_1(run))
    done = ttrace("compare", REF, run)
    assert (done.returncode, done.stderr) == (MATCH, "")


# What lies in the place of rank 1's file, and what is said of it.
LIES = {
    "of Monday": "2c88",
    "other letters": TUESDAY.upper(),
    "a beginning": TUESDAY[:-1],
    "and more": TUESDAY + "0",
    "drawn alone": "0" * 32 + "@1",
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("storage", ["hdf5", "safetensors"])
def test_a_file_of_another_run_is_lost(
    tmp_path: Path, ttrace: Run, storage: str, where: str, lie: str
) -> None:
    run = recorded(tmp_path / "run")
    say_run(rank_1(run), where, LIES[lie])
    if storage == "safetensors":
        convert(rank_1(run))
    done = ttrace("compare", REF, run)
    assert done.returncode == INCONCLUSIVE, done.stdout
    assert "1 of 2 ranks of the candidate could not be read" in done.stdout.splitlines()[0]
    assert f"{rank_1(run)}: is a file of another run, {LIES[lie]}" in done.stderr
    assert "copy the file that rank 1 wrote in that run here, or record again" in done.stderr


def mixed(folder: Path) -> Path:
    run = recorded(folder)
    say_run(rank_1(run), "both", "monday")
    return run


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["compare", REF, "RUN"], 3),
        (["compare", "RUN", REF], 3),
        (["compare", REF, REF, "--noise", "RUN"], None),
        (["audit", "RUN"], 3),
        (["audit", "RUN", "--specification", TESTDATA / "specification.json"], 3),
        (["localize", REF, "RUN"], 3),
        (["doctor", REF, "RUN"], 1),
        (["lint", "RUN"], 1),
        (["merge", "RUN", "-o", "OUT"], 3),
        (["calibrate", REF, "RUN", "-o", "OUT"], 2),
        (["selftest", REF, "RUN"], None),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_every_command_names_it(
    tmp_path: Path, ttrace: Run, command: list[str | Path], code: int | None
) -> None:
    run = mixed(tmp_path / "run")
    places = {"RUN": run, "OUT": tmp_path / "out"}
    done = ttrace(*[places.get(str(word), word) for word in command])
    assert "is a file of another run, monday" in done.stdout + done.stderr
    assert done.returncode != MATCH
    if code is not None:
        assert done.returncode == code


@pytest.mark.parametrize("silent", ["one file", "all files"])
def test_a_file_that_says_nothing_is_a_remark(tmp_path: Path, ttrace: Run, silent: str) -> None:
    run = recorded(tmp_path / "run")
    for file in [rank_1(run)] if silent == "one file" else sorted(run.glob("rank_*")):
        say_run(file, "nowhere", "")
    done = ttrace("compare", REF, run)
    assert done.returncode == MATCH
    assert done.stderr.count(REMARK) == 1 == done.stderr.count("\n")


def test_a_file_that_names_two_runs_is_lost(tmp_path: Path, ttrace: Run) -> None:
    run = recorded(tmp_path / "run")
    with h5py.File(rank_1(run), "r+") as file:
        file.attrs["ttrace_run"] = np.bytes_("monday")
    done = ttrace("compare", REF, run)
    assert done.returncode == INCONCLUSIVE
    assert "says that it is of the run monday (ttrace_run) and of the run 9f3c" in done.stderr
    alone = Path(shutil.copy(REF, tmp_path / "ref.h5"))
    with h5py.File(alone, "r+") as file:
        file.attrs["ttrace_run"] = np.bytes_("monday")
    check_refused(ttrace("compare", alone, run), f"{alone}: says that it is of the run monday")


def test_files_of_a_run_without_a_name_are_of_one(tmp_path: Path, ttrace: Run) -> None:
    """The manifest names no run, as of a foreign writer."""
    run = recorded(tmp_path / "run")
    edit_manifest(run, lambda manifest: manifest["run"].pop("id"))
    done = ttrace("compare", REF, run)
    assert (done.returncode, done.stderr) == (MATCH, "")
    say_run(rank_1(run), "stamp", "monday")
    assert ttrace("compare", REF, run).returncode == INCONCLUSIVE


def test_ranks_that_share_no_store_are_read_with_a_remark(tmp_path: Path, ttrace: Run) -> None:
    run = recorded(tmp_path / "run", identity=f"{'a' * 32}@0")
    say_run(rank_1(run), "both", f"{'b' * 32}@1")
    done = ttrace("compare", REF, run)
    assert done.returncode == MATCH
    assert REMARK in done.stderr
    for other in (f"{'b' * 32}@0", f"{'b' * 31}@1", TUESDAY):  # another rank's, no such id
        say_run(rank_1(run), "both", other)
        assert ttrace("compare", REF, run).returncode == INCONCLUSIVE
    say_run(rank_1(run), "both", f"{'b' * 32}@1")
    (run / "manifest.json").unlink()
    assert ttrace("lint", "--write", run).returncode == MATCH


def test_a_manifest_is_not_rebuilt_from_files_of_two_runs(tmp_path: Path, ttrace: Run) -> None:
    run = mixed(tmp_path / "run")
    (run / "manifest.json").unlink()
    done = ttrace("lint", "--write", run)
    check_refused(done, "rank 0 is of the run 9f3c", "rank 1 of another one, monday")
    assert not (run / "manifest.json").exists()


def test_what_is_merged_keeps_the_id(tmp_path: Path, ttrace: Run) -> None:
    merged = tmp_path / "merged.h5"
    assert ttrace("merge", recorded(tmp_path / "run"), "-o", merged).returncode == MATCH
    with h5py.File(merged) as file:
        assert file.attrs["ttrace_run"].decode() == TUESDAY
        assert json.loads(file["manifest"][()])["run"]["id"] == TUESDAY
    assert ttrace("compare", REF, merged).returncode == MATCH
    assert ttrace("compare", merged, REF).returncode != UNUSABLE
