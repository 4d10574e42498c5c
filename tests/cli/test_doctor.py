"""`ttrace doctor`: each check can fail, and says what to do; and what it finds installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import h5py
import pytest
from support.ttrace_cli import (
    DIVERGED,
    INCONCLUSIVE,
    MATCH,
    TESTDATA,
    UNUSABLE,
    ttrace_binary,
)

from .conftest import Run

WRONG = DIVERGED  # exit code 1: something stands in the way


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the testdata, to spoil."""
    return Path(shutil.copytree(TESTDATA, tmp_path / "data"))


def marks(done: CompletedProcess[str]) -> dict[str, str]:
    """Name of the check -> its mark and text."""
    found = {}
    for line in done.stdout.splitlines()[1:]:
        name, text = line[4:18].strip(), line[18:]
        found[name] = f"{line[2]} {text}"
    return found


def examine(ttrace: Run, folder: Path, *arguments: str) -> CompletedProcess[str]:
    return ttrace("doctor", "ref.h5", *(arguments or ("tp2sp",)), cwd=folder)


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edits the manifest of a folder or a file."""
    if path.is_dir():
        text = (path / "manifest.json").read_text()
        manifest = json.loads(text)
        edit(manifest)
        (path / "manifest.json").write_text(json.dumps(manifest))
        return
    with h5py.File(path, "r+") as file:
        manifest = json.loads(bytes(file["manifest"][()]))
        edit(manifest)
        del file["manifest"]
        file["manifest"] = json.dumps(manifest)


def test_a_good_pair(ttrace: Run, folder: Path) -> None:
    noise = [f"noise{seed}.h5" for seed in (1, 2, 3)]
    done = examine(ttrace, folder, "tp2sp", "--noise", *noise)
    assert done.returncode == MATCH and done.stderr == ""
    first = "READY  ref.h5 and tp2sp: 15 checks, nothing stands in the way"
    assert done.stdout.splitlines()[0] == first
    found = marks(done)
    assert [name for name, text in found.items() if text[0] != "✓"] == ["labels"]
    assert found["weights"] == "✓ 28 parameters agree"
    assert found["noise runs"].startswith("✓ 3 runs of this reference")
    quiet = ttrace("doctor", "ref.h5", "tp2sp", "--quiet", cwd=folder)
    assert quiet.stdout == first + "\n"


def test_a_bug_is_no_matter_of_the_doctor(ttrace: Run, folder: Path) -> None:
    assert examine(ttrace, folder, "tp2sp_p12").returncode == MATCH


def test_other_weights_and_other_data(ttrace: Run, folder: Path) -> None:
    with h5py.File(folder / "ref.h5", "r+") as file:
        for name in list(file["step_000000/param"])[:3]:
            file[f"step_000000/param/{name}"][...] *= 1.5
        file["step_000000/mb_0000/input/(model)"][...] = 1
    done = examine(ttrace, folder)
    assert done.returncode == WRONG
    assert done.stdout.startswith("NOT READY  ref.h5 and tp2sp: 2 of 15 checks failed: weights, da")
    found = marks(done)
    assert found["weights"].startswith("✗ 3 of 28 parameters differ; load one checkpoint in both")
    assert found["data"].startswith("✗ 1 of 2 inputs differs; give both the same batches")


def test_the_same_run_twice_and_swapped_runs(ttrace: Run, folder: Path) -> None:
    assert "✗ ref.h5 is the reference itself" in marks(examine(ttrace, folder, "ref.h5"))["sides"]
    assert "is a noise run" in marks(examine(ttrace, folder, "noise1.h5"))["sides"]
    swapped = ttrace("doctor", "tp2sp", "ref.h5", cwd=folder)
    assert "so they look swapped" in marks(swapped)["sides"]
    assert swapped.returncode == WRONG


def test_a_missing_rank_and_a_stale_one(ttrace: Run, folder: Path) -> None:
    shutil.move(folder / "tp2sp/rank_00001.h5", folder / "tp2sp/rank_00007.h5")
    done = examine(ttrace, folder)
    assert done.returncode == WRONG
    found = marks(done)
    assert found["ranks"].startswith("✗ tp2sp: ") and "rank_00001.h5" in found["ranks"]
    assert found["stale files"].startswith("✗ tp2sp/rank_00007.h5: the manifest's meshes have no")


def test_other_steps(ttrace: Run, folder: Path) -> None:
    def later(manifest: dict[str, Any]) -> None:
        for entry in manifest["tensors"]:
            entry["step"] = 5
        manifest["run"]["recorded"]["steps"] = [5]

    change(folder / "tp2sp", later)
    found = marks(examine(ttrace, folder))
    assert found["steps"].startswith("✗ the reference has 0, the candidate 5; record the same with")
    assert found["weights"] == "✗ no step is in both runs, so nothing can be compared"


def test_other_micro_batches(ttrace: Run, folder: Path) -> None:
    def more(manifest: dict[str, Any]) -> None:
        own = [entry for entry in manifest["tensors"] if entry.get("microbatch") == 0]
        manifest["tensors"] += [{**entry, "microbatch": 1} for entry in own]

    for path, counts in (("tp2sp", "2 micro-batches in step 0, the reference 1"), ("ref.h5", None)):
        change(folder / path, more)
        said = marks(examine(ttrace, folder))["micro-batches"]
        assert counts is None or said.startswith(f"✗ the candidate has {counts}")
    assert said == "✓ 0 and 1 in both"


def test_a_reference_with_more_micro_batches(ttrace: Run, folder: Path) -> None:
    def other(manifest: dict[str, Any]) -> None:
        own = [entry for entry in manifest["tensors"] if entry.get("microbatch") == 0]
        manifest["tensors"] += [{**entry, "microbatch": 1} for entry in own]

    change(folder / "ref.h5", other)
    said = marks(examine(ttrace, folder))["micro-batches"]
    assert said.startswith("✗ the candidate has 1 micro-batch in step 0, the reference 2 (candidat")


def test_other_settings_and_precision(ttrace: Run, folder: Path) -> None:
    def other(manifest: dict[str, Any]) -> None:
        manifest["optimizer"][0]["lr"] = 0.6
        manifest["run"]["precision"] = "bf16"

    change(folder / "tp2sp", other)
    done = examine(ttrace, folder)
    assert done.returncode == WRONG
    found = marks(done)
    assert found["optimizer"] == (
        "✗ lr is 0.3 in the reference and 0.6 in the candidate, for 28 parameters"
    )
    assert found["precision"].startswith("– the reference is fp32, the candidate bf16")


def test_kinds_that_were_not_recorded(ttrace: Run, folder: Path) -> None:
    def without(*kinds: str) -> Callable[[dict[str, Any]], None]:
        def edit(manifest: dict[str, Any]) -> None:
            kept = [one for one in manifest["tensors"] if one["kind"] not in kinds]
            manifest["tensors"] = kept
            recorded = manifest["run"]["recorded"]
            recorded["kinds"] = [kind for kind in recorded["kinds"] if kind not in kinds]

        return edit

    change(folder / "tp2sp", without("grad_norm"))
    done = examine(ttrace, folder)
    assert done.returncode == MATCH
    assert marks(done)["kinds"] == "– recorded by one run alone, and not compared: grad_norm"
    change(folder / "tp2sp", without("loss", "param"))
    done = examine(ttrace, folder)
    assert done.returncode == WRONG
    assert marks(done)["kinds"].startswith("✗ not recorded by both: param, loss; leave TTRACE_KIND")


def test_active_dropout(ttrace: Run, folder: Path) -> None:
    def as_dropout(manifest: dict[str, Any]) -> None:
        module = next(one for one in manifest["modules"] if one["name"] == "layers.0.norm1")
        module["class"] = "Dropout"

    change(folder / "ref.h5", as_dropout)
    done = examine(ttrace, folder)
    assert done.returncode == WRONG
    assert marks(done)["dropout"].startswith("✗ active in layers.0.norm1 of ref.h5, and no two run")


def test_noise_runs_of_another_reference(ttrace: Run, folder: Path) -> None:
    found = marks(examine(ttrace, folder, "tp2sp", "--noise", "ref.h5"))
    assert found["noise runs"].startswith("✗ ref.h5: is given as a noise run and is the reference")
    found = marks(examine(ttrace, folder, "tp2sp", "--noise", "noise1.h5", "noise1.h5"))
    assert found["noise runs"][0] in "–✗"


def other_names(manifest: dict[str, Any]) -> None:
    for entry in manifest["tensors"]:
        entry["name"] = f"model.{entry['name']}"


def test_other_names(ttrace: Run, folder: Path) -> None:
    change(folder / "tp2sp", other_names)
    said = marks(examine(ttrace, folder))["names"]
    assert said.startswith(
        "✗ no param has the same name in both (embedding.position.weight and mod"
    )
    assert "--map-starter map.json" in said


def compared(ttrace: Run, folder: Path) -> tuple[str, dict[str, str]]:
    """The first line of comparing what cannot be compared, and what it says as the doctor does."""
    done = ttrace("compare", "ref.h5", "tp2sp", "--quiet", cwd=folder)
    assert done.returncode == INCONCLUSIVE, done.stdout
    begin = "ttrace: warning: ttrace doctor ref.h5 tp2sp says of "
    told = [line.removeprefix(begin) for line in done.stderr.splitlines() if begin in line]
    return done.stdout, dict(line.split(": ", 1) for line in told)


def test_compare_says_why_nothing_was_compared(ttrace: Run, folder: Path) -> None:
    def later(manifest: dict[str, Any]) -> None:
        for entry in manifest["tensors"]:
            entry["step"] = 5
        manifest["run"]["recorded"]["steps"] = [5]

    change(folder / "tp2sp", later)
    first, told = compared(ttrace, folder)
    assert first.startswith(
        "INCONCLUSIVE  nothing was compared: the traces have no tensor in common; 202 not recorded "
    )
    assert told == {
        "steps": "the reference has 0, the candidate 5; record the same with TTRACE_STEPS"
    }
    # What it says is what the doctor says.
    assert marks(examine(ttrace, folder))["steps"] == f"✗ {told['steps']}"


def test_compare_says_that_names_differ(ttrace: Run, folder: Path) -> None:
    change(folder / "tp2sp", other_names)
    first, told = compared(ttrace, folder)
    assert "nothing was compared" in first
    assert list(told) == ["names"]


def test_compare_says_which_files_are_of_another_run(ttrace: Run, folder: Path) -> None:
    shutil.move(folder / "tp2sp/rank_00001.h5", folder / "tp2sp/rank_00007.h5")
    first, told = compared(ttrace, folder)
    assert "1 of 2 ranks of the candidate could not be read" in first
    assert list(told) == ["ranks", "stale files"]
    assert "let every rank end" in told["ranks"]
    assert "files of two runs may lie in one directory" in told["stale files"]


def test_compare_says_what_kinds_are_lacking(ttrace: Run, folder: Path) -> None:
    def only(kind: str) -> Callable[[dict[str, Any]], None]:
        def edit(manifest: dict[str, Any]) -> None:
            manifest["tensors"] = [one for one in manifest["tensors"] if one["kind"] == kind]
            manifest["run"]["recorded"]["kinds"] = [kind]

        return edit

    change(folder / "tp2sp", only("param"))
    change(folder / "ref.h5", only("output"))
    first, told = compared(ttrace, folder)
    assert "nothing was compared" in first and "not recorded by both" in told["kinds"]


def test_compare_asks_no_doctor_where_it_could_compare(ttrace: Run, folder: Path) -> None:
    for run in ("tp2sp", "tp2sp_p12", "ref.h5"):
        done = ttrace("compare", "ref.h5", run, cwd=folder)
        assert "ttrace doctor" not in done.stderr + done.stdout


def test_what_cannot_be_opened(ttrace: Run, folder: Path) -> None:
    done = examine(ttrace, folder, "nowhere")
    assert done.returncode == UNUSABLE and done.stdout == "" and "nowhere" in done.stderr
    done = ttrace("doctor", "ref.h5", cwd=folder)
    assert done.returncode == UNUSABLE and "`ttrace lint ref.h5`" in done.stderr


def installed(folder: Path, *packages: str) -> dict[str, str]:
    site = folder / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    for package in packages:
        (site / f"{package}.dist-info").mkdir()
    return {"VIRTUAL_ENV": str(folder / "env")}


def test_what_is_installed(ttrace: Run, tmp_path: Path) -> None:
    version = ttrace("--version").stdout.split()[1]
    own = installed(tmp_path, f"ttrace_torch-{version}", "h5py-3.16.0", "numpy-2.4.6")
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    (site / "below.pth").write_text(f"import os\n# a comment\n{tmp_path / 'base'}\n")
    for package in ("torch-2.13.0+cpu", "megatron_core-0.99.0", "deepspeed-0.1.2"):
        (tmp_path / "base" / f"{package}.dist-info").mkdir(parents=True)
    done = ttrace("doctor", environment=own, cwd=tmp_path)
    assert done.returncode == MATCH
    assert done.stdout.startswith("READY  this installation: ")
    found = marks(done)
    assert found["collector"] == f"✓ ttrace-torch {version} below {tmp_path}/env"
    assert found["torch"] == "✓ 2.13.0+cpu, among those tried (2.1 to 2.13)"
    assert found["megatron_core"].startswith("– 0.99.0, newer than what was tried (0.13 to 0.16)")
    assert found["deepspeed"].startswith("– 0.1.2, older than what was tried")
    assert "transformers" not in found


def test_the_collector_beside_the_program(ttrace: Run, tmp_path: Path) -> None:
    """In an environment that is not activated, and built from a checkout."""
    version = ttrace("--version").stdout.split()[1]
    installed(tmp_path, f"ttrace_torch-{version}+412.g1a2b3c4", "h5py-3.16.0", "numpy-2.4.6")
    program = tmp_path / "env" / "bin" / "ttrace"
    program.parent.mkdir()
    try:
        os.link(ttrace_binary(), program)
    except OSError:  # another file system
        shutil.copy(ttrace_binary(), program)
    (tmp_path / "link").symlink_to(program)
    other = {
        "VIRTUAL_ENV": "",
        "CONDA_PREFIX": "",
        "PATH": str(tmp_path),
        "COLUMNS": "1000",  # so that no line is cut
    }
    for name in (program, tmp_path / "link"):
        done = subprocess.run(
            [name, "doctor"], env={**os.environ, **other}, capture_output=True, text=True
        )
        found = f"ttrace-torch {version}+412.g1a2b3c4 below {tmp_path}/env"
        assert marks(done)["collector"] == f"✓ {found}"


def test_a_collector_that_cannot_run(ttrace: Run, tmp_path: Path) -> None:
    own = installed(tmp_path, "ttrace_torch-9.9.9", "numpy-2.4.6")
    done = ttrace("doctor", environment=own)
    assert done.returncode == WRONG
    assert marks(done)["collector"] == "✗ ttrace-torch 9.9.9 lacks h5py: pip install h5py"


def test_no_python_at_all(ttrace: Run, tmp_path: Path) -> None:
    bare = {"VIRTUAL_ENV": "", "CONDA_PREFIX": "", "PATH": str(tmp_path)}
    done = ttrace("doctor", environment=bare)
    assert done.returncode == MATCH and "– none is on PATH" in marks(done)["python"]
    assert os.listdir(tmp_path) == []
