"""Mixtures of experts, their experts cut over ranks that also cut data, sequence or tensors."""

import pytest

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "axes",
    [
        {"dp": 2, "ep": 2},
        {"dp": 2, "tp": 2, "sp": True, "ep": 2, "seed": 1},
        {"cp": 2, "dp": 2, "ep": 4, "top_k": 2},
        {"pp": 2, "dp": 2, "ep": 2},
    ],
    ids=["dp2 ep2", "dp2 tp2 sp ep2", "cp2 dp2 ep4 top2", "pp2 dp2 ep2"],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    """The seeds are ones where no rounding sends a token to another expert."""
    agreement.check_healthy(Config(**axes, experts=4, microbatches=4, precision=precision))


def test_a_router_that_is_not_reduced(agreement: Agreement) -> None:
    text = agreement.check_bug(Config(tp=2, sp=True, experts=4, microbatches=4, bug=("P6",)))
    assert "cause    missing_reduction" in text


def test_expert_gradients_divided_by_the_wrong_size(agreement: Agreement) -> None:
    text = agreement.check_bug(Config(dp=2, ep=2, experts=4, microbatches=4, bug=("G7",)))
    assert "cause    scaled" in text
