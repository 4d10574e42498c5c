"""Updates by AdamW, which the comparison replays."""

import pytest
from support.long_cases import chosen

from gallery.agreement import Agreement
from gallery.config import Config


@pytest.mark.parametrize(
    ("axes", "precision"),
    chosen(
        "updates by AdamW",
        [
            pytest.param({"dp": 4, "zero": True}, "fp32", id="dp4 zero fp32"),
            pytest.param({"tp": 2}, "bf16", id="tp2 bf16"),
        ],
        [pytest.param({"dp": 2}, "fp16", id="dp2 fp16")],
    ),
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    agreement.check_healthy(
        Config(
            **axes,
            microbatches=4,
            precision=precision,
            steps=2,  # the second begins with what noise decided where gradients are all noise
            optimizer="adamw",
            learning_rate=0.01,
            clip=0.5,
        )
    )
