"""Every layout trains as one process does: losses and gradient norms over three steps."""

import pytest

from gallery.conftest import LAYOUTS, REFERENCE, Runner
from gallery.launch import launch
from gallery.together import trained

THREE = ("--steps", "3")


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x != REFERENCE])
def test_fp32(run: Runner, layout: str) -> None:
    alone, together = run(REFERENCE, *THREE).steps, run(layout, *THREE).steps
    assert [step["step"] for step in together] == [0, 1, 2]
    for a, b in zip(alone, together, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-5)
        assert b["grad_norm"] == pytest.approx(a["grad_norm"], rel=1e-5)


def test_bf16(run: Runner) -> None:
    options = (*THREE, "--precision", "bf16")
    alone, together = run(REFERENCE, *options).steps, run("tp2 sp", *options).steps
    for a, b in zip(alone, together, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-2)
        assert b["grad_norm"] == pytest.approx(a["grad_norm"], rel=1e-2)


def test_training_moves(run: Runner) -> None:
    losses = [step["loss"] for step in run(REFERENCE, *THREE).steps]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] - 0.3


def test_tracing_does_not_change_the_training(run: Runner) -> None:
    assert launch(*THREE).steps == run(REFERENCE, *THREE).steps


def test_torchrun_trains_the_same(run: Runner) -> None:
    started = launch(*LAYOUTS["tp2 sp"], *THREE, processes=2)
    assert started.exit_code == 0, started.errors
    assert started.steps == run("tp2 sp", *THREE).steps


def test_clipping_shortens_the_step_but_not_the_norm_that_is_reported(run: Runner) -> None:
    free, clipped = run(REFERENCE, *THREE).steps, trained(*THREE, "--clip", "0.5").steps
    together = trained(*THREE, "--clip", "0.5", *LAYOUTS["tp2 sp"]).steps
    assert clipped[0] == free[0]
    assert free[0]["grad_norm"] > 0.5
    assert clipped[1]["loss"] > free[1]["loss"]
    for a, b in zip(clipped, together, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-5)
