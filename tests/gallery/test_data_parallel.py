"""Data parallelism and gradient accumulation."""

import pytest

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    [({"dp": 4}, "fp32"), ({"dp": 2, "tp": 2, "sp": True}, "bf16")],
    ids=["dp4 fp32", "dp2 tp2 sp bf16"],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    agreement.check_healthy(Config(**axes, microbatches=4, precision=precision))


@pytest.mark.parametrize("bug", ["P4", "G15"])
def test_gradients_reduced_wrongly(agreement: Agreement, bug: str) -> None:
    text = agreement.check_bug(Config(dp=2, microbatches=4, bug=(bug,)))
    assert text.startswith("DIVERGED  first at embedding.word.weight · main_grad · step 0")
    assert ("cause    scaled" in text) == (bug == "P4")


def test_a_microbatch_that_is_not_reduced(agreement: Agreement) -> None:
    text = agreement.check_bug(Config(dp=2, microbatches=4, bug=("G9",)))
    assert text.startswith("DIVERGED  first at embedding.word.weight · main_grad · step 0")
    assert "replica conflict" in text
