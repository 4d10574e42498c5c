"""A comparison that could not judge the updates of parameters says nothing of the optimizer's
step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conformance.write_trace import Tensor, write_candidate
from support.ttrace_cli import INCONCLUSIVE, MATCH

from .conftest import Run
from .small_traces import check_answer, edit_manifest

PARAMETERS = 20
NUMBERS = np.random.default_rng(11)
BEFORE = [NUMBERS.standard_normal(64).astype("<f4") for _ in range(PARAMETERS)]
# A quarter of each gradient is rounding alone: another run has it the other way round.
TURNED = np.where(np.arange(64) % 4 == 0, -1, 1).astype("<f4")
GRADIENTS = [
    (NUMBERS.standard_normal(64) * np.where(TURNED < 0, 1e-9, 1)).astype("<f4")
    for _ in range(PARAMETERS)
]


def step(turned: int) -> list[Tensor]:
    """A step whose optimizer takes signs; of the first `turned` parameters it is off, as rounding
    of the gradient may do."""
    tensors = [Tensor("loss", "loss", "float32", np.asarray(2.5, "<f4"))]
    for i, (before, gradient) in enumerate(zip(BEFORE, GRADIENTS, strict=True)):
        gradient = gradient * (TURNED if i < turned else 1)
        after = (before - np.float32(1e-2) * np.sign(gradient)).astype("<f4")
        for kind, values in (
            ("param", before),
            ("main_grad", gradient),
            ("param_after_step", after),
        ):
            tensors.append(Tensor(f"layers.{i}.bias", kind, "float32", values))
    return tensors


def pair(folder: Path, turned: int, optimizer: str) -> tuple[Path, Path]:
    groups = [
        {"step": 0, "type": optimizer, "lr": 1e-2, "updates": 1}
        | {"params": [f"layers.{i}.bias" for i in range(PARAMETERS)]}
    ]
    write_candidate(folder / "ref", step(0))
    write_candidate(folder / "run", step(turned))
    for run in ("ref", "run"):
        edit_manifest(folder / run, lambda manifest: manifest.update(optimizer=groups))
    return folder / "ref", folder / "run"


@pytest.mark.parametrize("turned", [PARAMETERS, 10, 3])
@pytest.mark.parametrize("optimizer", ["muon", "lion"])
def test_more_than_a_tenth_is_inconclusive(
    ttrace: Run, tmp_path: Path, turned: int, optimizer: str
) -> None:
    done = ttrace("compare", *pair(tmp_path, turned, optimizer))
    check_answer(
        done,
        INCONCLUSIVE,
        f"INCONCLUSIVE  nothing diverged, but the updates of {turned} of 20 parameters were not "
        "judged: ",
    )


@pytest.mark.parametrize("turned", [0, 1, 2])
def test_a_tenth_is_said(ttrace: Run, tmp_path: Path, turned: int) -> None:
    done = ttrace("compare", *pair(tmp_path, turned, "muon"))
    check_answer(done, MATCH, f"MATCH  {61 - turned} ")
    assert turned == 0 or f"; {turned} not judged" in done.stdout.splitlines()[0]


def test_what_a_person_leaves_out_stays_a_match(ttrace: Run, tmp_path: Path) -> None:
    done = ttrace(
        "compare", *pair(tmp_path, PARAMETERS, "muon"), "--kind", "param", "main_grad", "loss"
    )
    check_answer(done, MATCH, "MATCH  41 of 41 selected tensors agree (of 61)")


def test_a_rule_that_skips_is_a_selection(ttrace: Run, tmp_path: Path) -> None:
    rules = {"name": "*", "kind": "param_after_step", "skip": "Muon is compared elsewhere"}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"schema": "ttrace.tolerance/1", "rules": [rules]}))
    done = ttrace("compare", *pair(tmp_path, PARAMETERS, "muon"), "--tolerance", file)
    check_answer(done, MATCH, "MATCH  41 of 41 selected tensors agree (of 61)")
