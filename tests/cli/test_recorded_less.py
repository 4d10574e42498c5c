"""A candidate that was told to record less than the reference, and a person who selects less."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_answer, edit_manifest

REFERENCE = TESTDATA / "ref.h5"
BUGGY = TESTDATA / "tp2sp_p12"  # main gradients, their norm and the updates are wrong
HEALTHY = TESTDATA / "tp2sp"


def recorded_without(folder: Path, run: Path, *kinds: str) -> Path:
    """The run as its collector would have written it, told to leave out `kinds`."""
    copy = Path(shutil.copytree(run, folder / "run"))

    def leave_out(manifest: dict[str, Any]) -> None:
        kept = sorted({entry["kind"] for entry in manifest["tensors"]} - set(kinds))
        manifest["run"]["recorded"] = {"kinds": kept, "steps": [0]}
        manifest["tensors"] = [e for e in manifest["tensors"] if e["kind"] in kept]

    edit_manifest(copy, leave_out)
    return copy


def test_a_candidate_told_to_leave_out_where_the_bug_sits_does_not_match(
    ttrace: Run, tmp_path: Path
) -> None:
    run = recorded_without(tmp_path, BUGGY, "main_grad", "grad_norm", "param_after_step")
    check_answer(
        ttrace("compare", REFERENCE, run),
        INCONCLUSIVE,
        "INCONCLUSIVE  nothing diverged, but the candidate was told not to record "
        "1 gradient norm, 28 main gradients of the reference",
    )


@pytest.mark.parametrize("kind", ["loss", "grad_norm", "main_grad"])
def test_each_essential_kind_counts(ttrace: Run, tmp_path: Path, kind: str) -> None:
    run = recorded_without(tmp_path, HEALTHY, kind)
    done = ttrace("compare", REFERENCE, run)
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but the candidate was told")


def test_main_gradients_of_other_modules_count(ttrace: Run, tmp_path: Path) -> None:
    run = Path(shutil.copytree(HEALTHY, tmp_path / "run"))

    def only_attention(manifest: dict[str, Any]) -> None:
        kinds = sorted({entry["kind"] for entry in manifest["tensors"]})
        manifest["run"]["recorded"] = {"kinds": kinds, "steps": [0], "modules": ["*.attn*"]}
        manifest["tensors"] = [
            e
            for e in manifest["tensors"]
            if ".attn" in e["name"] or e["kind"] in ("loss", "grad_norm")
        ]

    edit_manifest(run, only_attention)
    done = ttrace("compare", REFERENCE, run)
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but the candidate was told")
    only = ttrace("compare", REFERENCE, run, "--only", "*.attn*")
    check_answer(only, MATCH, "MATCH  60 of 60 selected tensors agree (of 202)")


def test_other_kinds_may_be_left_out(ttrace: Run, tmp_path: Path) -> None:
    run = recorded_without(tmp_path, HEALTHY, "input")
    check_answer(ttrace("compare", REFERENCE, run), MATCH, "MATCH  169 of 202 tensors agree")


def test_what_diverges_counts_first(ttrace: Run, tmp_path: Path) -> None:
    run = recorded_without(tmp_path, BUGGY, "loss")
    check_answer(ttrace("compare", REFERENCE, run), DIVERGED, "DIVERGED  ", first="layers.0.norm1")


@pytest.mark.parametrize(
    ("flags", "selected"),
    [
        (("--kind", "output", "loss"), 28),
        (("--only", "layers.0.*"), 77),
        (("--skip", "*norm*"), 146),
    ],
)
def test_what_a_person_selects_stays_a_match(
    ttrace: Run, flags: tuple[str, ...], selected: int
) -> None:
    done = ttrace("compare", REFERENCE, HEALTHY, *flags)
    check_answer(done, MATCH, f"MATCH  {selected} of {selected} selected tensors agree (of 202)")


def test_a_rule_that_skips_is_a_selection_too(ttrace: Run, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(
        '{"schema": "ttrace.tolerance/1", "rules": [{"name": "*norm*", "kind": "main_grad",'
        ' "skip": "known to differ"}, {"name": "*", "kind": ["grad_norm", "param_after_step"],'
        ' "skip": "they follow"}]}'
    )
    done = ttrace("compare", REFERENCE, BUGGY, "--tolerance", rules)
    check_answer(done, MATCH, "MATCH  163 of 163 selected tensors agree (of 202)")
