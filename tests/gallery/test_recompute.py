"""Recomputation of activations, and another optimizer."""

import pytest

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    [
        ({"tp": 2, "sp": True, "cp": 2, "dropout": 0.1}, "bf16"),
        ({"pp": 2, "dropout": 0.1}, "fp32"),
        ({"pp": 2}, "fp32"),
    ],
    ids=["tp2 sp cp2 dropout bf16", "pp2 dropout fp32", "pp2 fp32"],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    """The reference keeps its activations."""
    agreement.check_healthy(Config(**axes, recompute=True, microbatches=4, precision=precision))
