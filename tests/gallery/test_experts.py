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
        ({"cp": 2, "tp": 2, "ep": 2, "top_k": 2}, "fp32"),
        ({"dp": 2, "tp": 2, "expert_tp": True}, "bf16"),
    ],
    ids=[
        "dp2 ep2 fp32",
        "dp2 tp2 sp ep2 bf16",
        "cp2 dp2 ep4 top2 fp32",
        "cp2 tp2 ep2 top2 fp32",
        "dp2 expert-tp2 bf16",
    ],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    """With this seed no rounding sends a token to another expert."""
    agreement.check_healthy(Config(**axes, experts=4, microbatches=4, precision=precision, seed=1))
