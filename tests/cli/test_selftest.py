"""ttrace selftest: limits against an independent computation, faults of yes or no, bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conformance.numpy_merge import key_of, merged, norm
from conformance.write_trace import Tensor, write_candidate, write_reference
from support.reports import validator
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_answer, check_refused, write_pair

REF, RUN = TESTDATA / "ref.h5", TESTDATA / "tp2sp"
NOISE = [flag for seed in (1, 2, 3) for flag in ("--noise", TESTDATA / f"noise{seed}.h5")]
SCHEMA = validator("ttrace.selftest/1")
STEP = 10 ** (1 / 8)


def answer_of(ttrace: Run, folder: Path, *arguments: str | Path) -> Any:
    path = folder / "selftest.json"
    done = ttrace("selftest", *arguments, "--json", path)
    made = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(word))
    SCHEMA.validate(made)
    assert done.returncode == made["exit_code"], done.stderr
    return made


def allowed_norms(ttrace: Run, folder: Path, *arguments: str | Path) -> dict[tuple, float]:
    path = folder / "compare.json"
    ttrace("compare", *arguments, "--json", path)
    results = json.loads(path.read_text())["results"]
    by_norm = [r for r in results if "replay" not in r and "rule" in r]
    return {key_of(r["key"]): r["allowed_norm"] for r in by_norm}


def limit(ladder: list[float], value: np.ndarray, reference: np.ndarray, allowed: float) -> float:
    """The smallest delta for which the values, as float32, are farther off than allowed."""
    for delta in ladder:
        faulty = (value * (1 + delta)).astype("<f4").astype(np.float64)
        if norm(faulty - reference) > allowed:
            return delta
    return float("inf")


def rounding_of_its_sum(reference: dict[tuple, np.ndarray], key: tuple) -> float:
    """What rounding added to the reference's gradient of a bias, a sum over all tokens: a
    difference beyond the tolerance may be larger by this."""
    step, _, kind, name, *place = key
    module, _, leaf = name.rpartition(".")
    gradient = reference.get((step, 0, "grad_output", module, *place))
    if leaf != "bias" or kind not in ("param_grad", "main_grad") or gradient is None:
        return 0.0
    return norm(reference[key] - gradient.reshape(-1, gradient.shape[-1]).sum(axis=0))


@pytest.mark.parametrize("noise", [[], NOISE], ids=["fallback", "noise"])
def test_limits_are_what_the_tolerances_allow(ttrace: Run, tmp_path: Path, noise: list) -> None:
    made = answer_of(ttrace, tmp_path, REF, RUN, *noise)
    allowed = allowed_norms(ttrace, tmp_path, REF, RUN, *noise)
    reference, candidate = merged(REF), merged(RUN)
    exact = 0
    for tensor in made["tensors"]:
        scaled = tensor["faults"]["scaled"]
        key = key_of(tensor)
        if tensor["dtype"] != "float32" or scaled["state"] == "unchanged" or key not in allowed:
            continue
        most = allowed[key] + rounding_of_its_sum(reference, key)
        expected = limit(made["ladder"], candidate[key], reference[key], most)
        assert scaled["state"] == "caught"
        # Without noise the whole alone is judged, with noise its parts too, which may catch it
        # earlier. Sums of parts are not rounded to float32, which may move a step.
        assert scaled["size"] <= expected * STEP * 1.001, key
        if not noise and tensor["kind"] != "param_grad":
            assert scaled["size"] == expected, key
            exact += 1
        elif noise:
            assert scaled["size"] > expected / 30, key
    assert noise or exact > 100


def test_faults_of_yes_or_no_are_caught(ttrace: Run, tmp_path: Path) -> None:
    made = answer_of(ttrace, tmp_path, REF, RUN, *NOISE)
    assert made["pair"] == "match"
    count = len(made["tensors"])
    assert count == sum(group["tensors"] for group in made["groups"]) == 202
    assert not any(tensor["checks_nothing"] for tensor in made["tensors"])
    for fault in ("shards_swapped", "part_dropped", "row_zeroed", "stale", "rounded_to_bf16"):
        tried = sum(group["faults"][fault]["tried"] for group in made["groups"])
        caught = sum(group["faults"][fault]["caught"] for group in made["groups"])
        assert tried > 5, fault
        assert caught == tried, fault
    dropped = {t["kind"]: t for t in made["tensors"] if t["faults"]["part_dropped"].get("what")}
    assert list(dropped) == ["param_grad"]
    stale = [t for t in made["tensors"] if t["faults"]["stale"]["state"] == "caught"]
    assert {tensor["kind"] for tensor in stale} == {"param_after_step"}


def test_a_sixteenth_is_caught_near_what_the_whole_is_allowed(ttrace: Run, tmp_path: Path) -> None:
    # The scale of the whole is far sharper still: over more elements rounding evens out.
    made = answer_of(ttrace, tmp_path, REF, RUN, *NOISE)
    allowed_norms(ttrace, tmp_path, REF, RUN, *NOISE)
    results = json.loads((tmp_path / "compare.json").read_text())["results"]
    allowed = {key_of(r["key"]): r["allowed"] for r in results if "allowed" in r}
    ratios = [
        tensor["faults"]["part_scaled"]["size"] / allowed[key_of(tensor)]
        for tensor in made["tensors"]
        if "size" in tensor["faults"]["part_scaled"] and tensor["rule"] == "noise"
    ]
    assert len(ratios) > 100
    assert np.median(ratios) < 5


def test_the_answer_comes_first_and_every_number_of_threads_gives_it(
    ttrace: Run, tmp_path: Path
) -> None:
    answers = []
    for threads in ("1", "3"):
        path = tmp_path / f"{threads}.json"
        done = ttrace("selftest", REF, RUN, *NOISE, "--threads", threads, "--json", path)
        check_answer(done, MATCH, "DETECTS  scale errors from ")
        assert "; 0 of 202 tensors check nothing\n" in done.stdout.split("\n\n")[0] + "\n"
        made = json.loads(path.read_text())
        del made["environment"]
        answers.append((done.stdout, made))
    assert answers[0] == answers[1]


def test_a_calibration_gives_the_same_limits(ttrace: Run, tmp_path: Path) -> None:
    tolerance = tmp_path / "tolerance.json"
    ttrace("calibrate", REF, *NOISE[1::2], "-o", tolerance)
    by_file = answer_of(ttrace, tmp_path, REF, RUN, "--tolerance", tolerance)
    assert by_file["groups"] == answer_of(ttrace, tmp_path, REF, RUN, *NOISE)["groups"]
    rules = json.loads(tolerance.read_text())
    rules["rules"] = [{"name": "final_norm*", "skip": "known", "until": "2999-01-01"}]
    tolerance.write_text(json.dumps(rules))
    skipped = answer_of(ttrace, tmp_path, REF, RUN, "--tolerance", tolerance)
    blind = [tensor for tensor in skipped["tensors"] if tensor["checks_nothing"]]
    assert blind
    assert all(tensor["name"].startswith("final_norm") for tensor in blind)
    assert all(tensor["unjudged"].startswith("policy:0: known") for tensor in blind)


def test_a_selection_is_all_that_is_tried(ttrace: Run, tmp_path: Path) -> None:
    made = answer_of(ttrace, tmp_path, REF, RUN, *NOISE, "--kind", "loss")
    assert [tensor["kind"] for tensor in made["tensors"]] == ["loss"]
    check_refused(ttrace("selftest", REF, RUN, "--only", "nowhere*"), "--only nowhere*")


def test_a_faulty_pair_has_no_table(ttrace: Run, tmp_path: Path) -> None:
    made = answer_of(ttrace, tmp_path, REF, TESTDATA / "tp2sp_p12", *NOISE)
    assert (made["exit_code"], made["pair"], made["tensors"]) == (DIVERGED, "diverged", [])
    done = ttrace("selftest", REF, TESTDATA / "tp2sp_p12", *NOISE)
    check_answer(done, DIVERGED, "DIVERGED  the pair itself is not a match (21 tensors)")
    assert done.stdout.count("\n") == 1


def test_a_lost_rank_and_a_trace_of_zeros_are_inconclusive(ttrace: Run, tmp_path: Path) -> None:
    ref, run = write_pair(tmp_path)
    (run / "rank_00001.h5").unlink()
    check_answer(ttrace("selftest", ref, run), INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but")
    zeros = [Tensor("fc", "output", "float32", np.zeros((4, 4), "<f4"))]
    write_reference(tmp_path / "zeros.h5", zeros)
    write_candidate(tmp_path / "zeros", zeros)
    done = ttrace("selftest", tmp_path / "zeros.h5", tmp_path / "zeros")
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  no fault changes a value")


def test_bf16_tensors_are_scaled_as_they_are_stored(ttrace: Run, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).standard_normal((64, 64)).astype("<f4")
    bits = (numbers.view("<u4") >> 16).astype("<u2")
    tensors = [Tensor("fc", "output", "bfloat16", bits, {"shard": 0})]
    write_reference(tmp_path / "ref.h5", tensors)
    write_candidate(tmp_path / "run", tensors)
    made = answer_of(ttrace, tmp_path, tmp_path / "ref.h5", tmp_path / "run")
    faults = made["tensors"][0]["faults"]
    assert faults["rounded_to_bf16"]["state"] == "impossible"
    assert faults["shards_swapped"]["state"] == "caught"
    assert 2**-8 < faults["scaled"]["size"] < 0.2


def test_bad_input_is_refused(ttrace: Run, tmp_path: Path) -> None:
    check_refused(ttrace("selftest", tmp_path / "none.h5", RUN), "none.h5")
    check_refused(ttrace("selftest", REF), "RUN is required")
    check_refused(ttrace("selftest", REF, RUN, "--noise", RUN / "manifest.json"), "manifest.json")
    check_refused(ttrace("selftest", REF, RUN, "--json", REF), "ref.h5")
    check_refused(ttrace("selftest", REF, RUN, "--json", tmp_path / "no" / "where.json"), "where")
    run = shutil.copytree(RUN, tmp_path / "run")
    with h5py.File(run / "rank_00000.h5", "r+") as file:
        del file["/step_000000/mb_0000/loss/loss"]
    done = ttrace("selftest", REF, run, *NOISE)
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but 1 of 202 tensors")
