"""Data parallelism and gradient accumulation."""

import pytest
from support.long_cases import chosen

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    # Four ranks in fp32: test_optimizer.py.
    chosen(
        "layouts with data parallelism",
        [pytest.param({"dp": 2, "tp": 2, "sp": True}, "bf16", id="dp2 tp2 sp bf16")],
        [pytest.param({"dp": 4}, "fp32", id="dp4 fp32")],
    ),
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    agreement.check_healthy(Config(**axes, microbatches=4, precision=precision))


def test_padding_one_head_of_keys_and_frozen_parameters(agreement: Agreement) -> None:
    others = {"padding": True, "multi_query": True, "freeze": "layers.1.mlp.fc1.*"}
    agreement.check_healthy(Config(dp=2, tp=2, microbatches=4, **others))
