"""Updated parameters of real torch optimizers, judged by replaying them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.reports import findings, read_report
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from support.update_run import Case, Fault, Recorded, train, write

BF16 = {"dtype": torch.bfloat16}
MAIN = {"dtype": torch.bfloat16, "main_params": True}
CASES = {
    "sgd": Case("sgd"),
    "sgd_momentum": Case("sgd", {"momentum": 0.9, "dampening": 0.1}),
    "sgd_nesterov": Case("sgd", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    "sgd_bf16": Case("sgd", {"momentum": 0.9}, **BF16),
    "sgd_main": Case("sgd", {"momentum": 0.9}, clip_norm=0.5, **MAIN),
    "adam": Case("adam"),
    "adam_amsgrad": Case("adam", {"amsgrad": True, "maximize": True}),
    "adam_clipped": Case("adam", {"eps": 1e-6}, clip_norm=0.5),
    "adamw": Case("adamw", {"betas": (0.9, 0.95)}),
    "adamw_amsgrad": Case("adamw", {"amsgrad": True}, steps=5),
    "adamw_foreach": Case("adamw", {"foreach": True}, clip_norm=0.5),
    "adamw_fused": Case("adamw", {"fused": True}, clip_norm=0.5),
    "adamw_bf16": Case("adamw", clip_norm=1e3, **BF16),
    "adamw_main": Case("adamw", clip_norm=0.5, **MAIN),
    "adamw_recorded_clipped": Case("adamw", {"eps": 1e-3}, clip_norm=0.5, record_clipped=True),
    "adamw_double": Case("adamw", dtype=torch.float64),
    "warmup": Case("adamw", lr=0.0),
}


def compare(
    folder: Path,
    reference: Recorded,
    candidate: Recorded,
    zero: int = 1,
    answers: tuple[int, ...] = (MATCH, DIVERGED),
) -> dict:
    ref = write(folder / "ref.h5", reference)
    run = write(folder / ("run" if zero > 1 else "run.h5"), candidate, zero=zero)
    done = run_ttrace("compare", ref, run, "--json", folder / "report.json")
    assert done.returncode in answers, (done.stdout, done.stderr)
    report = read_report(folder / "report.json")
    report["text"] = done.stdout
    return report


def updated(report: dict, name: str = "", step: int | None = None) -> list[dict]:
    return [
        result
        for result in report["results"]
        if result["key"]["kind"] == "param_after_step"
        and name in ("", result["key"]["name"])
        and step in (None, result["key"]["step"])
    ]


@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_healthy_updates_match(name: str, zero: int, tmp_path: Path) -> None:
    recorded = train(CASES[name])
    report = compare(tmp_path, recorded, recorded, zero, (MATCH,))
    assert {r["outcome"] for r in report["results"]} == {"match"}
    assert {r["outcome"] for r in updated(report)} == {"match"}, report["text"]
    assert report["warnings"] == []
    results = updated(report)
    assert len(results) == 3 * CASES[name].steps
    assert {result["rule"] for result in results} == {"replay"}
    worst = max(result["passing_multiplier"] for result in results)
    print(f"worst ratio {worst:.3f}  {name} zero {zero}")
    assert worst < 1
    for result in results:
        assert result["difference_norm"] <= result["allowed_norm"]
        assert result["replay"]["outside"] == 0


def test_signs_that_noise_decides_are_no_divergence(tmp_path: Path) -> None:
    """Where the gradient is all noise, Adam's first step differs by all of it."""
    case, other = Case("adamw", steps=1), Case("adamw", steps=1, gradient_noise=1e-9)
    report = compare(tmp_path, train(case), train(other))
    assert report["verdict"] == "match", report["text"]
    result = updated(report, "fc.weight")[0]
    assert result["replay"]["against_reference"]["error"] > 1e-3


def double_lr(groups: list[dict]) -> None:
    groups[1]["lr"] *= 2


def decay_everything(groups: list[dict]) -> None:
    groups[1]["weight_decay"] = 0.1


def one_step_ahead(state: dict) -> None:
    if "step" in state:
        state["step"] += 1


def clipped_by_less(name: str, gradient: torch.Tensor) -> torch.Tensor:
    return gradient * (1.1 if name == "norm.weight" else 1.0)


FAULTS = {
    "lr": (Fault(group=double_lr), {"fc.bias", "norm.weight"}, {0, 1, 2}),
    "decay": (Fault(group=decay_everything), {"fc.bias", "norm.weight"}, {0, 1, 2}),
    "stale": (Fault(stale="norm.weight"), {"norm.weight"}, {0, 1, 2}),
    "correction": (Fault(state=one_step_ahead), {"fc.weight", "fc.bias", "norm.weight"}, {1, 2}),
    "clip": (Fault(gradient=clipped_by_less), {"norm.weight"}, {0, 1, 2}),
}
FAULTY_CASES = {
    "fp32": Case("adamw", {"eps": 1e-3}, clip_norm=0.5),
    "main": Case("adamw", {"eps": 1e-3}, clip_norm=0.5, lr=0.1, **MAIN),
    "adam": Case("adam", {"eps": 1e-3}, clip_norm=0.5),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("case", FAULTY_CASES)
def test_faults_are_named(case: str, fault: str, tmp_path: Path) -> None:
    what, names, steps = FAULTS[fault]
    if fault == "decay":
        # The bias starts at zero, where decay has no effect.
        names, steps = {"norm.weight"}, {0}
    healthy, faulty = train(FAULTY_CASES[case]), train(FAULTY_CASES[case], what)
    # The candidate is held against itself: the reference has the same fault and helps nothing.
    report = compare(tmp_path, faulty, faulty)
    assert report["verdict"] == "diverged"
    bad = {
        (result["key"]["name"], result["key"]["step"])
        for result in report["results"]
        if result["outcome"] == "diverged"
    }
    assert {kind["key"]["kind"] for kind in findings(report)} == {"param_after_step"}
    assert {(name, step) for name in names for step in steps} <= bad
    assert {name for name, _ in bad} <= FAULTS[fault][1]
    if fault == "stale":
        causes = {cause["name"] for finding in findings(report) for cause in finding["causes"]}
        assert causes == {"stale"}
    (tmp_path / "other").mkdir()
    report = compare(tmp_path / "other", healthy, faulty)
    assert report["verdict"] == "diverged"


def test_another_lr_than_the_reference_is_told(tmp_path: Path) -> None:
    """The candidate does what its manifest says, which has other settings."""
    reference, candidate = train(Case(steps=1)), train(Case(steps=1, lr=1.001e-2))
    report = compare(tmp_path, reference, candidate)
    assert report["verdict"] == "diverged"
    # The setting is the finding, and the updates follow from it.
    assert findings(report) == []
    (setting,) = report["findings"]
    assert setting["setting"]["name"] == "lr"
    updates = [one for one in report["results"] if one["outcome"] == "diverged"]
    assert {one["key"]["kind"] for one in updates} == {"param_after_step"}
    assert all("lr 0.01, in the reference 0.01" in one["reason"] for one in updates)
    assert len(report["warnings"]) == 1


def test_half_a_range_that_is_not_updated(tmp_path: Path) -> None:
    recorded = train(Case(steps=1))
    faulty = Recorded(dict(recorded.tensors), recorded.optimizer)
    after = recorded.tensors[0, "param_after_step", "fc.weight"].clone()
    # Rank 1 has the elements from 61 on.
    after.view(-1)[90:] = recorded.tensors[0, "param", "fc.weight"].view(-1)[90:]
    faulty.tensors[0, "param_after_step", "fc.weight"] = after
    report = compare(tmp_path, recorded, faulty, zero=2)
    assert report["verdict"] == "diverged"
    (finding,) = findings(report)
    assert finding["key"]["name"] == "fc.weight"
    assert finding["ranks"] == [1]
    worst = finding["replay"]["worst"]
    assert worst["rank"] == 1
    assert worst["index"][0] * 10 + worst["index"][1] == worst["local_index"][0] + 61 >= 90
    assert finding["replay"]["outside"] == finding["unequal"] <= 30
    assert [cause["name"] for cause in finding["causes"]] == ["stale"]
    assert "replay" in report["text"]


def test_renamed_and_split_parameters_are_replayed(tmp_path: Path) -> None:
    """A map changes names and shapes of what is compared, not how the candidate was updated."""
    recorded = train(Case(steps=1))
    other = Recorded({}, [])
    for (step, kind, name), tensor in recorded.tensors.items():
        if name == "fc.weight":
            other.tensors[step, kind, "upper.weight"] = tensor[:6].clone()
            other.tensors[step, kind, "lower.weight"] = tensor[6:].clone()
        else:
            other.tensors[step, kind, name.replace("fc.", "one.")] = tensor
    ref = write(tmp_path / "ref.h5", other)
    run = write(tmp_path / "run", recorded, zero=2)
    (tmp_path / "map.json").write_text(
        json.dumps(
            {
                "schema": "ttrace.map/2",
                "candidate": [
                    {
                        "from": "fc.weight",
                        "to": ["upper.weight", "lower.weight"],
                        "split": {"dim": 0},
                    },
                    {"from": "fc.bias", "to": "one.bias"},
                ],
            }
        )
    )
    done = run_ttrace(
        "compare", ref, run, "--map", tmp_path / "map.json", "--json", tmp_path / "report.json"
    )
    assert done.returncode == MATCH, (done.stdout, done.stderr)
    report = read_report(tmp_path / "report.json")
    assert {r["rule"] for r in updated(report)} == {"replay"}
    assert len(updated(report, "lower.weight")) == len(updated(report, "one.bias")) == 1


def test_without_state_the_other_rules_judge_and_it_is_said(tmp_path: Path) -> None:
    recorded = train(Case())
    stateless = Recorded(
        {key: t for key, t in recorded.tensors.items() if key[1] != "optimizer_state"},
        recorded.optimizer,
    )
    report = compare(tmp_path, stateless, stateless)
    assert report["verdict"] == "match"
    assert {r["rule"] for r in updated(report, step=0)} == {"replay"}
    assert {r["rule"] for r in updated(report, step=2)} == {"fallback"}
    (warning,) = report["warnings"]
    assert "6 of 9 updated parameters" in warning
    assert "state was not recorded (6)" in warning
    # It needs the candidate alone.
    (tmp_path / "other").mkdir()
    report = compare(tmp_path / "other", Recorded(stateless.tensors, []), stateless)
    assert {r["rule"] for r in updated(report, step=0)} == {"replay"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"lr": -1.0}, "lr -1"),
        ({"betas": [0.9, 1.0]}, "beta 1"),
        ({"betas": [-0.5, 0.9]}, "beta -0.5"),
        ({"eps": -1e-8}, "eps"),
        ({"weight_decay": -0.5}, "weight_decay"),
        ({"updates": 0}, "updates 0"),
        ({"clip_norm": 0.0}, "clip_norm 0"),
        ({"type": "muon"}, "muon"),
        ({"type": "sgd", "momentum": -1}, "momentum"),
    ],
)
def test_impossible_hyperparameters_judge_nothing(
    change: dict, reason: str, tmp_path: Path
) -> None:
    recorded = train(Case(steps=1))
    odd = Recorded(recorded.tensors, [{**e, **change} for e in recorded.optimizer])
    report = compare(tmp_path, odd, odd)
    assert {r["rule"] for r in updated(report)} == {"fallback"}
    assert reason in report["warnings"][0]


def test_a_parameter_in_two_groups_judges_nothing(tmp_path: Path) -> None:
    recorded = train(Case(steps=1))
    twice = Recorded(recorded.tensors, [*recorded.optimizer, recorded.optimizer[0]])
    report = compare(tmp_path, twice, twice)
    assert updated(report, "fc.weight")[0]["rule"] == "fallback"
    assert updated(report, "fc.bias")[0]["rule"] == "replay"
    assert "two parameter groups (1)" in report["warnings"][0]


@pytest.mark.parametrize("moves", [False, True])
def test_a_frozen_parameter_must_not_move(tmp_path: Path, moves: bool) -> None:
    recorded = train(Case(steps=1))
    groups = [{**e, "params": [p for p in e["params"] if p != "norm.weight"]}
              for e in recorded.optimizer]  # fmt: skip
    frozen = Recorded(dict(recorded.tensors), groups)
    del frozen.tensors[0, "main_grad", "norm.weight"]
    after = recorded.tensors[0, "param", "norm.weight"].clone()
    after[3] *= 1 + (2**-22 if moves else 0)
    frozen.tensors[0, "param_after_step", "norm.weight"] = after
    still = Recorded(dict(frozen.tensors), groups)
    still.tensors[0, "param_after_step", "norm.weight"] = recorded.tensors[
        0, "param", "norm.weight"
    ]
    report = compare(tmp_path, still, frozen)
    result = updated(report, "norm.weight")[0]
    assert result["rule"] == "replay"
    assert result["replay"]["optimizer"] == "no update"
    assert result["outcome"] == ("diverged" if moves else "match")
    assert report["verdict"] == result["outcome"]
    # The reference says that its loop moves it, as a slow copy.
    (tmp_path / "both").mkdir()
    frozen.rewritten = ["norm.weight"] if moves else []
    result = updated(compare(tmp_path / "both", frozen, frozen), "norm.weight")[0]
    assert result["outcome"] == "match"
    assert result["rule"] == ("fallback" if moves else "replay")


def test_a_nan_diverges_unless_the_optimizer_makes_one(tmp_path: Path) -> None:
    recorded = train(Case(steps=1))
    broken = Recorded(dict(recorded.tensors), recorded.optimizer)
    after = recorded.tensors[0, "param_after_step", "fc.bias"].clone()
    after[2] = float("nan")
    broken.tensors[0, "param_after_step", "fc.bias"] = after
    report = compare(tmp_path, broken, broken)
    assert updated(report, "fc.bias")[0]["outcome"] == "diverged"
    gradient = recorded.tensors[0, "main_grad", "fc.bias"].clone()
    gradient[2] = float("nan")
    broken.tensors[0, "main_grad", "fc.bias"] = gradient
    (tmp_path / "other").mkdir()
    report = compare(tmp_path / "other", broken, broken)
    assert updated(report, "fc.bias")[0]["outcome"] == "match"
