"""What a candidate says that it computed in widens its tolerance: only as far as its run shows, and
seen on the first line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.write_trace import Tensor, write_candidate, write_reference
from support.ttrace_cli import DIVERGED, MATCH

from .conftest import Run
from .small_traces import check_answer, edit_manifest

RANDOM = np.random.default_rng(7)
VALUES = RANDOM.standard_normal(64).astype("<f4")
OFF = (VALUES * np.float32(1.0005)).astype("<f4")  # 4,000 ε of f32, and an eighth of one of bf16
COARSE = Tensor("act", "output", "bfloat16", (VALUES.view("<u4") >> 16).astype("<u2"))
WIDENED = "; 2 judged as bf16 "


def step(values: np.ndarray) -> list[Tensor]:
    return [
        Tensor("fc", "output", "float32", values),
        Tensor("fc.weight", "main_grad", "float32", values),
        Tensor("fc.weight", "param_after_step", "float32", VALUES),
        Tensor("loss", "loss", "float32", np.asarray(2.5, "<f4")),
    ]


def claiming(tensors: list[Tensor]) -> list[Tensor]:
    coarse = ("output", "main_grad")
    return [replace(t, computed_in="bfloat16") if t.kind in coarse else t for t in tensors]


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Path, Path]:
    write_reference(tmp_path / "ref.h5", step(VALUES))
    write_candidate(tmp_path / "run", claiming(step(OFF)))
    return tmp_path / "ref.h5", tmp_path / "run"


def test_a_type_that_the_run_does_not_show_widens_nothing(
    ttrace: Run, traces: tuple[Path, Path]
) -> None:
    done = ttrace("compare", *traces)
    check_answer(done, DIVERGED, "DIVERGED  ", first="fc · output · step 0")
    assert "computed_in of 2 tensors (fc" in done.stderr
    assert "it counts as float32" in done.stderr


def test_a_type_that_the_run_names_widens_on_the_first_line(
    ttrace: Run, traces: tuple[Path, Path]
) -> None:
    def name(manifest: dict[str, Any]) -> None:
        manifest["run"] = {"precision": "bf16"}

    edit_manifest(traces[1], name)
    done = ttrace("compare", *traces)
    check_answer(done, MATCH, "MATCH  4 tensors agree, nothing unchecked")
    assert WIDENED in done.stdout.splitlines()[0]
    assert "computed_in" not in done.stderr


def test_a_type_that_a_tensor_is_stored_in_widens_on_the_first_line(
    ttrace: Run, tmp_path: Path
) -> None:
    write_reference(tmp_path / "ref.h5", [*step(VALUES), COARSE])
    write_candidate(tmp_path / "run", [*claiming(step(OFF)), COARSE])
    done = ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")
    check_answer(done, MATCH, "MATCH  5 tensors agree, nothing unchecked")
    assert WIDENED in done.stdout.splitlines()[0]


def test_what_the_reference_says_too_is_no_widening(ttrace: Run, tmp_path: Path) -> None:
    write_reference(tmp_path / "ref.h5", claiming(step(VALUES)))
    write_candidate(tmp_path / "run", claiming(step(VALUES)))
    done = ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")
    check_answer(done, MATCH, "MATCH  4 tensors agree, nothing unchecked")
    assert "computed_in" not in done.stdout.splitlines()[0] + done.stderr
