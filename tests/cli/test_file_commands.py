"""inspect, lint and merge on real traces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import pytest
from support.another_run import copy_as_another_run
from support.synth import synth, tensors
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import (
    SWAPPED,
    check_answer,
    check_match,
    check_refused,
    edit_manifest,
    write_pair,
)

REFERENCE, HEALTHY, FAULTY = TESTDATA / "ref.h5", TESTDATA / "tp2sp", TESTDATA / "tp2sp_p12"
SINGLE_FILES = [REFERENCE, *(TESTDATA / f"noise{i}.h5" for i in (1, 2, 3))]


def test_inspect_lists_every_tensor_in_execution_order(ttrace: Run) -> None:
    done = ttrace("inspect", HEALTHY)
    check_answer(done, MATCH, f"{HEALTHY}: 202 tensors, 2 ranks, 1 step\n")
    listed = [line for line in done.stdout.splitlines() if " · step 0" in line]
    assert len(listed) == 202
    place = {name: i for i, line in enumerate(listed) for name in [line.split("  ")[1]]}
    assert place["embedding · output · step 0 · mb 0"] < place["head · output · step 0 · mb 0"]
    assert place["head · output · step 0 · mb 0"] < place["loss · loss · step 0 · mb 0"]


def test_inspect_shows_layout_and_values(ttrace: Run) -> None:
    done = ttrace("inspect", HEALTHY, "layers.0.attn.qkv.weight", "--values")
    assert done.returncode == MATCH
    with h5py.File(REFERENCE) as file:
        norm = (
            file["step_000000/param/layers.0.attn.qkv.weight"][()].astype(float) ** 2
        ).sum() ** 0.5
    [param] = [line for line in done.stdout.splitlines() if " · param · " in line]
    assert "dimension 0 cut over tp" in param
    assert f"norm {norm:.3g}, " in param


def test_inspect_says_what_a_noise_run_is(ttrace: Run) -> None:
    done = ttrace("inspect", TESTDATA / "noise2.h5")
    assert "perturbed at embedding.word by " in done.stdout
    assert "(seed 2)" in done.stdout


@pytest.mark.parametrize("trace", [HEALTHY, FAULTY, *SINGLE_FILES], ids=lambda path: path.name)
def test_the_testdata_is_clean(ttrace: Run, trace: Path) -> None:
    check_answer(ttrace("lint", trace), MATCH, "CLEAN  202 tensors over ")
    done = ttrace("lint", trace, "--manifest-only")
    check_answer(done, MATCH, "CLEAN  202 tensors over ")
    assert "the layout alone" in done.stdout


def test_lint_tells_of_rank_files_that_the_meshes_have_no_rank_for(
    ttrace: Run, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(HEALTHY, run)
    shutil.copy(run / "rank_00001.h5", run / "rank_00007.h5")
    done = ttrace("lint", run)
    assert done.returncode == DIVERGED
    assert done.stdout.startswith("FINDINGS  1 in 202 tensors over 2 ranks, 404 datasets\n")
    assert f"{run}/rank_00007.h5: the manifest's meshes have no rank 7" in done.stdout


def test_lint_counts_and_lists_its_findings(ttrace: Run, tmp_path: Path) -> None:
    _, run = write_pair(tmp_path)
    edit_manifest(
        run,
        lambda m: m.update(
            modules=[
                {"name": "fc", "inputs": ["nobody"]},
                {"name": "loss", "computed_from": ["fc"]},
            ]
        ),
    )
    (run / "rank_00001.h5").unlink()
    done = ttrace("lint", run)
    check_answer(done, DIVERGED, "FINDINGS  2 in 3 tensors over 2 ranks")
    assert f"{run}: /modules/0/inputs/0: there is no module" in done.stdout
    assert f"{run}/rank_00001.h5: No such file or directory" in done.stdout
    assert done.stderr == ""
    done = ttrace("lint", run, "--manifest-only")
    check_answer(done, DIVERGED, "FINDINGS  1 in ")


def test_a_merged_trace_is_its_source_in_one_file(ttrace: Run, tmp_path: Path) -> None:
    merged, report = tmp_path / "merged.h5", tmp_path / "report.json"
    done = ttrace("merge", HEALTHY, "-o", merged)
    check_answer(done, MATCH, "MERGED  202 tensors (")
    assert done.stderr == ""
    check_answer(ttrace("lint", merged), MATCH, "CLEAN  202 tensors over 1 rank, 202 datasets")
    same = ttrace("compare", HEALTHY, merged)
    check_answer(same, INCONCLUSIVE, "INCONCLUSIVE  the reference and the candidate are the same")
    other = copy_as_another_run(merged, tmp_path / "other.h5")
    edited = "when it was finished, so HDF5 opens its tensors"
    for *pair, warnings in ((other, HEALTHY, ()), (HEALTHY, other, (SWAPPED,))):
        check_match(ttrace("compare", *pair, "--json", report), 202, edited, *warnings)
        results = json.loads(report.read_text())["results"]
        against = [result.get("replay", {}).get("against_reference", result) for result in results]
        assert {numbers["difference_norm"] for numbers in against} == {0}
    check_match(ttrace("compare", REFERENCE, merged), 202)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "merged.h5",
        "other.h5",
        "report.json",
    ]


def test_merging_twice_gives_the_same_bytes(ttrace: Run, tmp_path: Path) -> None:
    for name in ("a.h5", "b.h5"):
        assert ttrace("merge", HEALTHY, "-o", tmp_path / name).returncode == MATCH
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_merging_replicas_that_differ_warns_of_each(ttrace: Run, tmp_path: Path) -> None:
    done = ttrace("merge", FAULTY, "-o", tmp_path / "merged.h5")
    check_answer(done, MATCH, "MERGED  202 tensors (")
    warnings = done.stderr.splitlines()
    assert len(warnings) == 20
    for warning in warnings:
        assert warning.startswith("ttrace: warning: ")
        assert "norm" in warning
        assert "copies that should be equal differ; the first was written" in warning


def test_merge_never_replaces_what_is_read(ttrace: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    before = {path: path.read_bytes() for path in [reference, *run.iterdir()]}
    for source, output in [
        (reference, reference),
        (run, run),
        (run, run / "rank_00000.h5"),
        (run, run / "manifest.json"),
        (run, run / ".." / "run" / "rank_00001.h5"),
    ]:
        done = ttrace("merge", source, "-o", output)
        assert done.returncode == 2
        assert str(output) in done.stderr
        assert {path: path.read_bytes() for path in before} == before
    assert sorted(path.name for path in run.iterdir()) == sorted(
        path.name for path in before if path != reference
    )
    relative = ttrace("merge", ".", "-o", "rank_00000.h5", cwd=run)
    check_refused(relative, "rank_00000.h5: belongs to the trace that is read")
    check_answer(ttrace("merge", run, "-o", run / "merged.h5"), MATCH, "MERGED  3 tensors")


def test_merge_into_a_place_that_is_not_there(ttrace: Run, tmp_path: Path) -> None:
    for output in (tmp_path / "absent" / "x.h5", Path("/dev/null/x.h5")):
        check_refused(ttrace("merge", HEALTHY, "-o", output), f"{output}: cannot be created")
    (tmp_path / "folder").mkdir()
    done = ttrace("merge", HEALTHY, "-o", tmp_path / "folder")
    check_refused(done, f"{tmp_path / 'folder'}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(("count", "warnings"), [(20, 0), (5_000, 1)])
def test_many_tensors_without_a_table_of_ranges(
    ttrace: Run, tmp_path: Path, count: int, warnings: int
) -> None:
    """10,000 openings by HDF5 warn once of what they cost."""
    run, same = tmp_path / "run.h5", tmp_path / "same.h5"
    synth(run, tensors(count, [2]))
    with h5py.File(run, "a") as file:
        del file["ranges"]
    shutil.copy(run, same)
    said = ttrace("compare", run, same).stderr
    assert said.count("warning: ") == warnings
    if warnings:
        assert ".h5: has no table of ranges, so HDF5 opens" in said
        assert "50 µs each and changes no result; `ttrace merge` writes the trace anew" in said
