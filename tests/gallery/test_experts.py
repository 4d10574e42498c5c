"""Mixtures of experts, their experts cut over ranks that also cut data, sequence or tensors."""

import pytest

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    [
        ({"dp": 2, "ep": 2}, "fp32"),
        ({"dp": 2, "tp": 2, "sp": True, "ep": 2}, "bf16"),
        ({"cp": 2, "dp": 2, "ep": 4, "top_k": 2}, "fp32"),
    ],
    ids=["dp2 ep2 fp32", "dp2 tp2 sp ep2 bf16", "cp2 dp2 ep4 top2 fp32"],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    """With this seed no rounding sends a token to another expert."""
    agreement.check_healthy(Config(**axes, experts=4, microbatches=4, precision=precision, seed=1))


def test_a_router_that_is_not_reduced(agreement: Agreement) -> None:
    text = agreement.check_bug(
        Config(tp=2, sp=True, experts=4, microbatches=4, seed=1, bug=("P6",))
    )
    assert "cause    missing_reduction" in text


def test_expert_gradients_divided_by_the_wrong_size(agreement: Agreement) -> None:
    text = agreement.check_bug(Config(dp=2, ep=2, experts=4, microbatches=4, seed=1, bug=("G7",)))
    assert "cause    scaled" in text
