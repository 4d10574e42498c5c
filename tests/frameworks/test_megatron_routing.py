"""Mixtures of experts in bf16: flips of tokens near a tie are no bug, a wrong choice is one."""

from __future__ import annotations

import grid
import megatron_cases
import pytest
from megatron_cases import NEWEST
from support.reports import findings, read_report
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, run_ttrace

HEALTHY = ("flipping_tp2_sp", "flipping_ep2")


@pytest.fixture
def runs(megatron):
    """The folder of the reference, `flipping.h5`, its noise runs and all runs of ROUTED."""
    return megatron.train(NEWEST)


def compared(runs, name, *more):
    out = runs / f"{name}.json"
    done = run_ttrace(
        "compare", runs / "flipping.h5", runs / name, "--json", out, *more, timeout=600
    )
    return done, read_report(out)


def noise(runs):
    return [
        word
        for seed in grid.SEEDS
        for word in ("--noise", runs / f"{megatron_cases.noise_of('flipping', seed)}.h5")
    ]


def flips_of(report):
    """How many tokens flipped, all of them explained."""
    flipped = 0
    for router in report.get("routing", []):
        assert router["unexplained"] == 0
        if not router["after_flips"]:
            assert router["largest_gap"] <= 8 * router["noise"]
        assert router["key"]["name"].endswith(".mlp.router[1]")
        flipped += router["flipped"]
    return flipped


def test_healthy_layouts_flip_tokens_and_diverge_nowhere(runs):
    flipped = 0
    for name in HEALTHY:
        done, report = compared(runs, name, *noise(runs))
        assert done.returncode in (MATCH, INCONCLUSIVE), done.stdout + done.stderr
        assert report["findings"] == []
        flipped += flips_of(report)
        after = report["counts"]["after_routing_flip"]
        # Noise runs flip tokens too, and then allow gradients any error.
        unchecked = "main gradients were not checked" in report.get("why", "")
        assert (done.returncode == INCONCLUSIVE) == (after > 0 or unchecked)
    assert flipped > 0


def test_without_noise_runs_no_router_is_a_finding(runs):
    flipped = 0
    for name in HEALTHY:
        _, report = compared(runs, name)
        flipped += flips_of(report)
        assert not [found for found in findings(report) if "router" in found["key"]["name"]]
    assert flipped > 0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("flipping_permuted", "against its own scores"),
        ("flipping_one_less", "not as many experts as in the reference"),
    ],
)
def test_a_wrong_choice_is_found_where_it_is_made(runs, name, why):
    done, report = compared(runs, name, *noise(runs))
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert "first at decoder.layers.0.mlp.router" in done.stdout
    first = report["routing"][0]
    assert first["key"]["name"] == "decoder.layers.0.mlp.router[1]"
    assert first["unexplained"] > first["tokens"] / 2
    assert why in first["first_unexplained"]["why"]
    assert report["counts"]["routing_flip"] == 0
