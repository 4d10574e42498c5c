"""Noise that one tensor of a noise run, or of a calibration, shows alone hides no fault in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.ttrace_cli import DIVERGED, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_answer

REFERENCE, HEALTHY = TESTDATA / "ref.h5", TESTDATA / "tp2sp"
NOISE = [TESTDATA / f"noise{seed}.h5" for seed in (1, 2, 3)]
SAID = "noise that is no rounding, since nothing beside"
# By kind, the part of the path behind the step, and the name in a calibration.
TENSORS = {
    "main_grad": "main_grad/layers.1.mlp.fc1.weight",
    "output": "mb_0000/output/layers.0.attn.core",
    "param_grad": "mb_0000/param_grad/layers.0.norm1.bias",
    "grad_output": "mb_0000/grad_output/layers.1.mlp",
    "loss": "mb_0000/loss/loss",
}


def with_factor(run: Path, copy: Path, kind: str, factor: float) -> Path:
    """A copy with one tensor multiplied; in a noise run, element by element by random numbers that
    are at most so large."""
    if run.is_dir():
        shutil.copytree(run, copy)
    else:
        shutil.copy(run, copy)
    for file in [copy] if copy.is_file() else copy.glob("rank_*.h5"):
        with h5py.File(file, "a") as opened:
            dataset = opened[f"step_000000/{TENSORS[kind]}"]
            values = dataset[()]
            by = np.float32(factor)
            if copy.suffix == ".h5":
                seed = np.random.default_rng(1)
                by = (1 + (factor - 1) * seed.uniform(0.5, 1, np.shape(values))).astype("<f4")
            dataset[...] = values * by
    return copy


def flags(runs: list[Path]) -> list[str | Path]:
    return [flag for run in runs for flag in ("--noise", run)]


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("runs", [1, 3])
def test_noise_in_one_tensor_hides_nothing(
    ttrace: Run, tmp_path: Path, kind: str, runs: int
) -> None:
    noise = [with_factor(NOISE[0], tmp_path / "noise.h5", kind, 1.1), *NOISE[1:runs]]
    wrong = with_factor(HEALTHY, tmp_path / "wrong", kind, 1.05)
    done = ttrace("compare", REFERENCE, wrong, *flags(noise))
    check_answer(done, DIVERGED, "DIVERGED  ")
    name = TENSORS[kind].split("/")[-1]
    assert f"1 tensor has {SAID} it shows it: {name} · {kind} · step 0" in done.stderr
    done = ttrace("compare", REFERENCE, HEALTHY, *flags(noise))
    check_answer(done, MATCH, "MATCH  202 tensors agree")
    assert SAID in done.stderr


@pytest.mark.parametrize("kind", ["main_grad", "output", "loss"])
def test_an_edited_calibration_hides_nothing(ttrace: Run, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "calibration.json"
    assert ttrace("calibrate", REFERENCE, *NOISE, "-o", file).returncode == 0
    calibration = json.loads(file.read_text())
    (edited,) = [
        tensor
        for tensor in calibration["tensors"]
        if tensor["kind"] == kind and tensor["name"] == TENSORS[kind].split("/")[-1]
    ]
    edited["noise"] = [0.1 * edited["norm"]] * 3
    edited["largest"] = [0.1 * edited["norm"]] * 3
    edited.pop("cells", None)
    edited.pop("grid", None)
    file.write_text(json.dumps(calibration))
    wrong = with_factor(HEALTHY, tmp_path / "wrong", kind, 1.05)
    done = ttrace("compare", REFERENCE, wrong, "--tolerance", file)
    check_answer(done, DIVERGED, "DIVERGED  ")
    assert SAID in done.stderr
    done = ttrace("compare", REFERENCE, HEALTHY, "--tolerance", file)
    check_answer(done, MATCH, "MATCH  202 tensors agree")


@pytest.mark.parametrize("runs", [NOISE[:1], NOISE])
def test_healthy_noise_is_not_named(ttrace: Run, runs: list[Path]) -> None:
    done = ttrace("compare", REFERENCE, HEALTHY, *flags(runs))
    check_answer(done, MATCH, "MATCH  202 tensors agree")
    assert "no rounding" not in done.stderr
