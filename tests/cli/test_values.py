"""What the first line says of values that agree and say little: not finite, zero, absent, or equal
as numbers but not in their bits."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import h5py
import numpy as np
import pytest
from conformance.write_trace import Tensor, write_candidate, write_reference
from support.reports import read_report
from support.ttrace_cli import INCONCLUSIVE, MATCH

from .conftest import Run
from .small_traces import check_answer, edit_manifest

NAN = float("nan")
SKIPPED = [{"step": 0, "type": "sgd", "skipped": True, "params": ["head"]}]


def floats(name: str, kind: str, *values: float) -> Tensor:
    return Tensor(name, kind, "float32", np.array(values, "<f4"))


def step(*more: Tensor) -> list[Tensor]:
    """Four tensors of a step, and more."""
    return [
        Tensor("loss", "loss", "float32", np.asarray(2.5, "<f4")),
        floats("fc", "output", 1, 2, 3),
        floats("fc", "main_grad", 3, 2, 1),
        floats("fc", "param_after_step", 4, 5, 6),
        *more,
    ]


def edit_reference(path: Path, facts: dict[str, Any]) -> None:
    with h5py.File(path, "r+") as file:
        manifest = json.loads(file["manifest"][()])
        del file["manifest"]
        file["manifest"] = json.dumps(manifest | facts)


class Pair:
    """A reference and a candidate, written and compared."""

    def __init__(self, ttrace: Run, folder: Path) -> None:
        self.ttrace, self.folder = ttrace, folder
        self.reference, self.run = folder / "ref.h5", folder / "run"

    def write(self, reference: list[Tensor], candidate: list[Tensor] | None = None) -> None:
        write_reference(self.reference, reference)
        write_candidate(self.run, reference if candidate is None else candidate)

    def compare(self, *flags: str | Path) -> CompletedProcess[str]:
        return self.ttrace("compare", self.reference, self.run, *flags)


@pytest.fixture
def pair(ttrace: Run, tmp_path: Path) -> Pair:
    return Pair(ttrace, tmp_path)


def test_values_that_are_not_finite_are_named(pair: Pair) -> None:
    pair.write(step(floats("head", "output", 1, 2, NAN)))
    done = pair.compare("--json", pair.folder / "report.json")
    check_answer(done, MATCH, "MATCH  5 tensors agree (")
    named = "1 holds values that are not finite on both sides (head · output · step 0)"
    assert f"; {named}; " in done.stdout.splitlines()[0]
    remarks = read_report(pair.folder / "report.json")["coverage"]["remarks"]
    assert {"name": "not_finite", "tensors": 1, "unchecked": False, "text": named} in remarks


@pytest.mark.parametrize("kind", ["grad_norm", "param", "main_grad", "param_after_step"])
def test_a_tensor_that_matters_and_is_mostly_not_finite_is_no_match(pair: Pair, kind: str) -> None:
    pair.write(step(floats("head", kind, 1, NAN, NAN)))
    check_answer(
        pair.compare(),
        INCONCLUSIVE,
        f"INCONCLUSIVE  nothing diverged, but most of head · {kind} · step 0 is not finite on both "
        "sides",
    )


def test_half_of_a_parameter_not_finite_is_named_only(pair: Pair) -> None:
    pair.write(step(floats("head", "param", 1, NAN)))
    done = pair.compare()
    check_answer(done, MATCH, "MATCH  5 tensors agree (")
    assert "; 1 holds values that are not finite on both sides" in done.stdout.splitlines()[0]


def test_a_step_that_a_scaler_skipped_on_both_sides_may_match(pair: Pair) -> None:
    gradients = [floats("head", "main_grad", 1, NAN, NAN), floats("body", "main_grad", NAN, NAN)]
    pair.write(step(*gradients))
    check_answer(pair.compare(), INCONCLUSIVE, "INCONCLUSIVE  ")

    def skip(manifest: dict[str, Any]) -> None:
        manifest["optimizer"] = SKIPPED

    edit_manifest(pair.run, skip)
    check_answer(pair.compare(), INCONCLUSIVE, "INCONCLUSIVE  ")  # the candidate alone
    edit_reference(pair.reference, {"optimizer": SKIPPED})
    done = pair.compare()
    check_answer(done, MATCH, "MATCH  5 of 6 tensors agree")
    assert "; a loss scaler skipped step 0 on both sides; " in done.stdout.splitlines()[0]


def test_values_are_compared_and_not_bits(pair: Pair) -> None:
    stored = np.array([2, 1, 0], "u1").view(bool)
    other = floats("zeros", "output", -0.0, 0.0, 1)
    plain = floats("zeros", "output", 0.0, -0.0, 1)
    pair.write(
        step(plain, Tensor("mask", "buffer", "bool", np.array([True, True, False]))),
        step(other, Tensor("mask", "buffer", "bool", stored)),
    )
    done = pair.compare()
    check_answer(done, MATCH, "MATCH  6 tensors agree, nothing unchecked")
    assert done.stdout.splitlines()[0].endswith("; all values equal")


def test_tensors_of_zeros_and_without_elements_are_counted(pair: Pair) -> None:
    pair.write(step(floats("dead", "output", 0, 0), floats("none", "output")))
    done = pair.compare()
    check_answer(done, MATCH, "MATCH  6 tensors agree")
    assert "; 1 without elements; 1 zero on both sides; " in done.stdout.splitlines()[0]
