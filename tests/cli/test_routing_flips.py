"""Routing flips: tokens near a tie go to other experts, which is no bug; a wrong choice is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import findings, read_report
from support.ttrace_cli import INCONCLUSIVE

from .conftest import Run
from .small_moe import CHOSEN, EXPERTS, TOKENS, Array, Model, best, write_pair
from .small_traces import check_answer, check_diverged

ROUNDING = 4e-4  # of fp16: a few tokens in two thousand flip


def compared(ttrace: Run, ref: Path, run: Path) -> tuple[Any, Any]:
    out = ref.parent / "report.json"
    done = ttrace("compare", ref, run, "--json", out)
    return done, read_report(out)


def result(report: Any, name: str) -> Any:
    (found,) = [
        r for r in report["results"] if (r["key"]["name"], r["key"]["kind"]) == (name, "output")
    ]
    return found


@pytest.mark.parametrize("spelling", ["map", "indices", "weights"])
def test_healthy_flips_are_no_finding_and_no_match_either(
    tmp_path: Path, ttrace: Run, spelling: str
) -> None:
    ref, run = write_pair(tmp_path, Model(seed=1, rounding=ROUNDING), spelling)
    done, report = compared(ttrace, ref, run)
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but ")
    assert report["findings"] == []
    first = report["routing"][0]
    assert first["key"]["name"].startswith("layers.0.mlp.router")
    assert (first["tokens"], first["experts"]) == (TOKENS, EXPERTS)
    assert 0 < first["flipped"] < TOKENS / 10
    assert first["unexplained"] == 0
    assert first["largest_gap"] < 8 * first["noise"]
    assert not first["after_flips"]
    if spelling != "weights":
        assert result(report, "layers.0.mlp.router[1]")["outcome"] == "routing_flip"
    assert (
        f"{first['flipped']} of {TOKENS} tokens went to other experts, each near a tie"
        in done.stdout
    )
    # The layer is judged without the tokens that flipped, and only without them.
    layer = result(report, "layers.0")
    assert (layer["outcome"], layer["tokens_left_out"]) == ("match", first["flipped"])
    assert layer["error"] < 0.01
    # Attention has mixed them into all others: neither right nor wrong.
    assert result(report, "layers.1")["outcome"] == "after_routing_flip"
    assert report["counts"]["after_routing_flip"] > 0
    assert "computed from them not judged" in done.stdout


def test_without_flips_nothing_is_told_of_routing(tmp_path: Path, ttrace: Run) -> None:
    done, report = compared(ttrace, *write_pair(tmp_path, Model()))
    assert report["verdict"] == "match"
    assert "routing" not in report
    assert "routing" not in done.stdout
    assert report["counts"]["routing_flip"] == 0


def test_the_next_best_experts_are_a_divergence(tmp_path: Path, ttrace: Run) -> None:
    def second_and_third(logits: Array) -> Array:
        return np.argsort(-logits, axis=1)[:, 1 : 1 + CHOSEN]

    wrong = Model(seed=1, rounding=ROUNDING, choose=second_and_third)
    done, report = compared(ttrace, *write_pair(tmp_path, wrong))
    check_diverged(done, "layers.0.mlp.router")
    assert result(report, "layers.0.mlp.router[1]")["outcome"] == "diverged"
    assert report["routing"][0]["unexplained"] == TOKENS
    assert "against its own scores" in report["routing"][0]["first_unexplained"]["why"]
    assert "not explained by rounding" in done.stdout
    assert report["counts"]["routing_flip"] == 0


def test_permuted_experts_are_a_divergence(tmp_path: Path, ttrace: Run) -> None:
    permuted = Model(choose=lambda logits: (best(logits) + 1) % EXPERTS)
    done, report = compared(ttrace, *write_pair(tmp_path, permuted, "indices"))
    check_diverged(done, "layers.0.mlp.router[1]")
    assert report["routing"][0]["unexplained"] > TOKENS / 2


def test_one_expert_instead_of_two_is_a_divergence(tmp_path: Path, ttrace: Run) -> None:
    one = Model(choose=lambda logits: best(logits)[:, :1])
    done, report = compared(ttrace, *write_pair(tmp_path, one))
    check_diverged(done, "layers.0.mlp.router")
    assert "not as many experts" in report["routing"][0]["first_unexplained"]["why"]


def test_one_wrong_token_among_healthy_flips_is_a_divergence(tmp_path: Path, ttrace: Run) -> None:
    def one_wrong(logits: Array) -> Array:
        chosen = best(logits)
        margins = np.sort(logits, axis=1)
        token = int(np.argmax(margins[:, -1] - margins[:, 0]))
        chosen[token, 0] = np.argmin(logits[token])
        return chosen

    done, report = compared(
        ttrace, *write_pair(tmp_path, Model(seed=1, rounding=ROUNDING, choose=one_wrong))
    )
    check_diverged(done, "layers.0.mlp.router")
    assert report["routing"][0]["unexplained"] == 1
    assert report["routing"][0]["flipped"] > 1


def test_a_wrong_choice_after_flips_is_a_divergence(tmp_path: Path, ttrace: Run) -> None:
    layers = iter(range(2))

    def wrong_in_the_second(logits: Array) -> Array:
        return best(logits) if next(layers) == 0 else (best(logits) + 1) % EXPERTS

    wrong = Model(seed=1, rounding=ROUNDING, choose=wrong_in_the_second)
    done, report = compared(ttrace, *write_pair(tmp_path, wrong))
    assert result(report, "layers.0.mlp.router[1]")["outcome"] == "routing_flip"
    check_diverged(done, "layers.1.mlp.router[1]")
    assert report["routing"][1]["after_flips"]
    assert report["routing"][1]["unexplained"] > TOKENS / 2


def test_a_bug_in_the_experts_is_not_hidden_by_flips(tmp_path: Path, ttrace: Run) -> None:
    def louder(name: str, values: Array) -> Array:
        return values * 1.2 if name == "layers.0.mlp" else values

    done, report = compared(
        ttrace, *write_pair(tmp_path, Model(seed=1, rounding=ROUNDING, after=louder))
    )
    check_diverged(done, "layers.0.mlp · output")
    found = findings(report)[0]
    assert found["tokens_left_out"] == report["routing"][0]["flipped"]
    assert found["scale"] == pytest.approx(1.2, abs=0.02)
    assert "also without the rows" in found["reason"]
    assert "     routing  without the rows of " in done.stdout


def test_a_bug_before_the_router_is_not_taken_for_flips(tmp_path: Path, ttrace: Run) -> None:
    def louder(name: str, values: Array) -> Array:
        return values * 1.2 if name == "layers.0.attention" else values

    done, report = compared(
        ttrace, *write_pair(tmp_path, Model(seed=1, rounding=ROUNDING, after=louder))
    )
    check_diverged(done, "layers.0.attention · output")
    assert "routing" not in report


def test_a_bug_after_flips_keeps_the_run_from_matching(tmp_path: Path, ttrace: Run) -> None:
    def zeroed(name: str, values: Array) -> Array:
        return values * 0 if name == "layers.1.mlp" else values

    done, report = compared(
        ttrace, *write_pair(tmp_path, Model(seed=1, rounding=ROUNDING, after=zeroed))
    )
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but ")
    assert result(report, "layers.1.mlp")["outcome"] == "after_routing_flip"


def test_the_report_is_the_same_for_every_number_of_threads(tmp_path: Path, ttrace: Run) -> None:
    ref, run = write_pair(tmp_path, Model(seed=1, rounding=ROUNDING))
    reports = []
    for threads in ("1", "4"):
        out = tmp_path / f"{threads}.json"
        ttrace("compare", ref, run, "--threads", threads, "--json", out)
        reports.append({**json.loads(out.read_text()), "environment": None})
    assert reports[0] == reports[1]
