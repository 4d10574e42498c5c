"""Pipeline parallelism: layers cut over stages, tied embedding and head at its ends."""

import pytest

from gallery.agreement import BOTH, Agreement
from gallery.config import Config
from gallery.parallel import Axis
from gallery.pipeline import schedule


@pytest.mark.parametrize(
    ("axes", "precision"),
    [({"pp": 2, "dp": 2}, "bf16"), ({"pp": 2, "tp": 2, "sp": True}, "fp32")],
    ids=["pp2 dp2 bf16", "pp2 tp2 sp fp32"],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    agreement.check_healthy(Config(**axes, microbatches=4, precision=precision), BOTH)


@pytest.mark.parametrize("pp", [3, 2])
def test_a_stage_in_the_middle_and_stages_of_other_sizes(agreement: Agreement, pp: int) -> None:
    agreement.check_healthy(Config(pp=pp, layers=3, microbatches=4))


@pytest.mark.parametrize(
    "options",
    [{"vpp": 2, "layers": 4, "tp": 2}, {"dp": 2, "zero": True, "packed": True}],
    ids=["virtual stages", "packed"],
)
def test_other_cuts_of_stages(agreement: Agreement, options: dict) -> None:
    agreement.check_healthy(Config(pp=2, microbatches=4, **options))


def test_the_order_of_one_forward_one_backward() -> None:
    def order(stage: int) -> list[str]:
        axis = Axis("pp", 3, stage, ranks=(0, 1, 2))
        return [f"{direction[0]}{turn}" for direction, turn in schedule(axis, 4)]

    assert order(0) == ["f0", "f1", "f2", "b0", "f3", "b1", "b2", "b3"]
    assert order(1) == ["f0", "f1", "b0", "f2", "b1", "f3", "b2", "b3"]
    assert order(2) == ["f0", "b0", "f1", "b1", "f2", "b2", "f3", "b3"]
