"""Recomputation of activations, and another optimizer."""

import pytest

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    [({"tp": 2, "sp": True, "cp": 2}, "bf16"), ({"pp": 2}, "fp32")],
    ids=["tp2 sp cp2 bf16", "pp2 fp32"],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    """The reference keeps its activations."""
    agreement.check_healthy(Config(**axes, recompute=True, microbatches=4, precision=precision))


def test_every_layer_recomputed_from_the_input_of_all(agreement: Agreement) -> None:
    text = agreement.check_bug(Config(tp=2, recompute=True, microbatches=4, bug=("P2",)))
    assert text.startswith(
        "DIVERGED  first at layers.1.mlp.fc2.weight · param_grad · step 0 · mb 0"
    )
