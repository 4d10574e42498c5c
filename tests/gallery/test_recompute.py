"""Recomputation of activations, and another optimizer."""

import pytest
from support.long_cases import chosen

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    chosen(
        "layouts that recompute",
        [
            pytest.param(
                {"tp": 2, "sp": True, "cp": 2, "dropout": 0.1},
                "bf16",
                id="tp2 sp cp2 dropout bf16",
            ),
            pytest.param({"pp": 2}, "fp32", id="pp2 fp32"),
        ],
        [pytest.param({"pp": 2, "dropout": 0.1}, "fp32", id="pp2 dropout fp32")],
    ),
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    """The reference keeps its activations."""
    agreement.check_healthy(
        Config(**axes, recompute=True, microbatches=2 * axes.get("dp", 1), precision=precision)
    )
