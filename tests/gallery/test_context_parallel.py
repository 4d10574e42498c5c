"""Context parallelism: zigzag order, ring attention."""

import pytest
import torch
from support.long_cases import chosen
from torch import Tensor

from gallery.agreement import Agreement
from gallery.config import Config
from gallery.parallel import Axis
from gallery.ring import zigzag


@pytest.mark.parametrize(
    ("axes", "precision"),
    # In fp32: test_experts.py.
    chosen(
        "layouts with context parallelism",
        [
            pytest.param({"cp": 4}, "bf16", id="cp4 bf16"),
            pytest.param({"cp": 2, "tp": 2, "sp": True}, "bf16", id="cp2 tp2 sp bf16"),
        ],
        [pytest.param({"cp": 2, "dp": 2}, "fp32", id="cp2 dp2 fp32")],
    ),
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    agreement.check_healthy(Config(**axes, microbatches=2 * axes.get("dp", 1), precision=precision))


def test_zigzag() -> None:
    def part(index: int) -> Tensor:
        return zigzag(torch.arange(8), Axis("cp", 2, index, ranks=(0, 1)))

    assert part(0).tolist() == [0, 1, 6, 7]
    assert part(1).tolist() == [2, 3, 4, 5]
