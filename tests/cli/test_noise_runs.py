"""compare and calibrate --noise: what is not a run of this reference is refused, and says why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.another_run import copy_as_another_run
from support.reports import read_report
from support.text_report import answer
from support.ttrace_cli import INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_answer, check_match, check_refused

REFERENCE, HEALTHY = TESTDATA / "ref.h5", TESTDATA / "tp2sp"
NOISE = [TESTDATA / f"noise{seed}.h5" for seed in (1, 2, 3)]
WHAT_IT_IS = "; a noise run is the reference itself, run again with TTRACE_NOISE set to a seed"


def edited(
    folder: Path, edit: Callable[[h5py.File, dict], object], source: Path = NOISE[0]
) -> Path:
    path = Path(shutil.copy(source, folder / "edited.h5"))
    with h5py.File(path, "a") as file:
        manifest = json.loads(file["manifest"][()])
        edit(file, manifest)
        del file["manifest"]
        file["manifest"] = json.dumps(manifest)
    return path


def refused(ttrace: Run, tmp_path: Path, *noise: Path, why: str) -> None:
    flags = [flag for path in noise for flag in ("--noise", path)]
    out = tmp_path / "out.json"
    done = ttrace("compare", REFERENCE, HEALTHY, *flags, "--json", out)
    check_refused(done, f"{noise[-1]}: {why}", WHAT_IT_IS)
    assert not out.exists()
    if HEALTHY not in noise:  # a calibration knows no candidate
        done = ttrace("calibrate", REFERENCE, *noise, "-o", out)
        check_refused(done, f"{noise[-1]}: {why}", WHAT_IT_IS)
        assert not out.exists()


def test_the_reference_is_none(ttrace: Run, tmp_path: Path) -> None:
    why = f"is given as a noise run and is the reference {REFERENCE}"
    refused(ttrace, tmp_path, REFERENCE, why=why)
    link = tmp_path / "link.h5"
    link.symlink_to(REFERENCE)
    refused(ttrace, tmp_path, NOISE[0], link, why=why)


def test_the_candidate_is_none(ttrace: Run, tmp_path: Path) -> None:
    refused(
        ttrace, tmp_path, HEALTHY, why=f"is given as a noise run and is the candidate {HEALTHY}"
    )


def test_one_run_twice_is_not_two(ttrace: Run, tmp_path: Path) -> None:
    refused(
        ttrace,
        tmp_path,
        NOISE[0],
        NOISE[1],
        NOISE[0],
        why=f"is given as a noise run and is the noise run {NOISE[0]} again",
    )


def test_a_copy_of_the_reference_has_no_noise(ttrace: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copy(REFERENCE, tmp_path / "copy.h5"))
    why = f"is given as a noise run and is the reference {REFERENCE}"
    refused(ttrace, tmp_path, copy, why=why)
    refused(
        ttrace,
        tmp_path,
        copy_as_another_run(REFERENCE, tmp_path / "other.h5"),
        why="equals the reference bit by bit, so nothing in it was perturbed",
    )


def test_another_models_run_lacks_tensors(ttrace: Run, tmp_path: Path) -> None:
    def shorter(file: h5py.File, manifest: dict) -> None:
        kept = [entry for entry in manifest["tensors"] if not entry["name"].startswith("layers.1.")]
        manifest["tensors"] = kept

    # Activations and gradients of a numbered module may be those of an expert without a token;
    # parameters, before the step and after, are always there.
    why = f"lacks {2 * 12} tensors of the reference (first layers.1.norm1.weight · param · step 0)"
    refused(ttrace, tmp_path, edited(tmp_path, shorter), why=why)


def test_other_parameters_are_another_start(ttrace: Run, tmp_path: Path) -> None:
    def moved(file: h5py.File, manifest: dict) -> None:
        file["step_000000/param/final_norm.weight"][3] *= 1 + 2**-22

    refused(
        ttrace,
        tmp_path,
        edited(tmp_path, moved),
        why="final_norm.weight · param · step 0 differs by ",
    )


def perturbed_by(epsilon: float) -> Callable[[h5py.File, dict], object]:
    return lambda file, manifest: manifest["run"]["noise"].update(epsilon=epsilon)


@pytest.mark.parametrize("epsilons", [8.39e4, 100, 4.5])
def test_what_is_no_rounding_is_none(ttrace: Run, tmp_path: Path, epsilons: float) -> None:
    noise = edited(tmp_path, perturbed_by(epsilons * 2**-23))
    refused(ttrace, tmp_path, noise, why="was perturbed by ")
    done = ttrace("compare", REFERENCE, HEALTHY, "--noise", noise)
    check_refused(done, "times ε of float32, the coarsest type that the reference shows")


@pytest.mark.parametrize("factor", [1.01, 0.999, 1 + 2**-18])
def test_what_was_perturbed_shows_by_how_much(ttrace: Run, tmp_path: Path, factor: float) -> None:
    def more(file: h5py.File, manifest: dict) -> None:
        at = manifest["run"]["noise"]["at"]
        file[f"step_000000/mb_0000/output/{at}"][...] *= np.float32(factor)

    why = "embedding.word · output · step 0 · mb 0, which it says was perturbed, differs by "
    refused(ttrace, tmp_path, edited(tmp_path, more), why=why)


@pytest.mark.parametrize(
    ("epsilons", "types"),
    [
        (4, {}),
        (1024, {"precision": "fp32, tf32"}),
        (1024, {"products": {"matmul": "tf32"}}),
        (2**16, {"precision": "bf16"}),
    ],
)
def test_a_rounding_of_a_type_that_the_reference_shows_is_one(
    ttrace: Run, tmp_path: Path, epsilons: float, types: dict[str, object]
) -> None:
    noise = edited(tmp_path, perturbed_by(epsilons * 2**-23))
    reference = Path(shutil.copy(REFERENCE, tmp_path / "reference.h5"))
    with h5py.File(reference, "a") as file:
        manifest = json.loads(file["manifest"][()])
        manifest["run"].update(types)
        del file["manifest"]
        file["manifest"] = json.dumps(manifest)
    done = ttrace("compare", reference, HEALTHY, "--noise", noise)
    check_answer(done, MATCH, "MATCH  202 tensors agree")


def test_runs_of_one_seed_count_once(ttrace: Run, tmp_path: Path) -> None:
    def same_seed(file: h5py.File, manifest: dict) -> None:
        manifest["run"]["noise"]["seed"] = 1

    again = edited(tmp_path, same_seed, NOISE[1])
    flags = ["--noise", NOISE[0], "--noise", again]
    done = ttrace("compare", REFERENCE, HEALTHY, *flags, "--json", tmp_path / "two.json")
    check_match(done, 202, "were perturbed with the same seed 1, so they count as one run")
    alone = ttrace("compare", REFERENCE, HEALTHY, *flags[:2], "--json", tmp_path / "one.json")
    check_match(alone, 202)
    one, two = (read_report(tmp_path / f"{name}.json") for name in ("one", "two"))
    assert one["results"] == two["results"]


@pytest.mark.parametrize("lost", ["seed", "param", "param, unsaid"])
def test_what_cannot_be_checked_is_said(ttrace: Run, tmp_path: Path, lost: str) -> None:
    def without(file: h5py.File, manifest: dict) -> None:
        if lost == "seed":
            del manifest["run"]["noise"]
            return
        tensors = manifest["tensors"]
        manifest["tensors"] = [entry for entry in tensors if entry["kind"] != "param"]
        if lost == "param":
            manifest["run"]["recorded"]["kinds"].remove("param")  # its collector was told so
        else:
            del manifest["run"]["recorded"]

    noise = edited(tmp_path, without)
    done = ttrace("compare", REFERENCE, HEALTHY, "--noise", noise)
    check_answer(done, MATCH, "MATCH  202 tensors agree")
    seed, param = "does not say that it was perturbed", "has no parameters, so whether"
    said = seed if lost == "seed" else param
    assert said in done.stderr and said not in done.stdout


def test_parameters_that_a_run_says_it_recorded_are_lacking(ttrace: Run, tmp_path: Path) -> None:
    def without(file: h5py.File, manifest: dict) -> None:
        tensors = manifest["tensors"]
        manifest["tensors"] = [entry for entry in tensors if entry["kind"] != "param"]

    why = "lacks 28 tensors of the reference (first embedding.word.weight · param · step 0)"
    refused(ttrace, tmp_path, edited(tmp_path, without), why=why)


def test_the_loss_must_be_checked(ttrace: Run, tmp_path: Path) -> None:
    def wild(file: h5py.File, manifest: dict) -> None:
        loss = file["step_000000/mb_0000/loss/loss"]
        loss[...] = loss[()] * 3

    # Equal bits would match whatever is allowed.
    run = tmp_path / "run"
    shutil.copytree(HEALTHY, run)
    for rank in run.glob("rank_*.h5"):
        with h5py.File(rank, "a") as file:
            loss = file["step_000000/mb_0000/loss/loss"]
            loss[...] = np.nextafter(loss[()], np.float32(np.inf))
    done = ttrace("compare", REFERENCE, run, "--noise", edited(tmp_path, wild))
    check_answer(done, MATCH, "MATCH  202 tensors agree")
    assert "loss · loss · step 0" in done.stderr and "noise that is no rounding" in done.stderr
    rules = tmp_path / "rules.json"
    allowed = [{"name": "loss", "kind": "loss", "absolute": 1e3}]
    rules.write_text(json.dumps({"schema": "ttrace.tolerance/1", "rules": allowed}))
    done = ttrace("compare", REFERENCE, run, "--noise", NOISE[0], "--tolerance", rules)
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but loss · loss · step 0")
    assert "was not checked (its tolerance is wider than the tensor itself)" in answer(done.stdout)
