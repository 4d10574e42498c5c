"""Mixtures of experts, their experts cut over ranks that also cut data, sequence or tensors."""

import pytest
from support.long_cases import chosen

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    chosen(
        "layouts with experts",
        [
            pytest.param({"dp": 2, "tp": 2, "sp": True, "ep": 2}, "bf16", id="dp2 tp2 sp ep2 bf16"),
            pytest.param(
                {"cp": 2, "dp": 2, "ep": 4, "top_k": 2}, "fp32", id="cp2 dp2 ep4 top2 fp32"
            ),
            pytest.param({"dp": 2, "tp": 2, "expert_tp": True}, "bf16", id="dp2 expert-tp2 bf16"),
        ],
        [
            pytest.param({"dp": 2, "ep": 2}, "fp32", id="dp2 ep2 fp32"),
            pytest.param(
                {"cp": 2, "tp": 2, "ep": 2, "top_k": 2}, "fp32", id="cp2 tp2 ep2 top2 fp32"
            ),
        ],
    ),
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    """With this seed no rounding sends a token to another expert."""
    agreement.check_healthy(Config(**axes, experts=4, microbatches=4, precision=precision, seed=1))
