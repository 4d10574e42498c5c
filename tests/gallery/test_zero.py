"""ZeRO-1: ranges of main gradients, main parameters and optimizer state over dp."""

import pytest
import torch

from gallery import bugs
from gallery.agreement import Agreement
from gallery.config import Config
from gallery.parallel import ProcessMesh
from gallery.zero import CAPACITY, Buckets


@pytest.mark.parametrize(
    ("axes", "precision"),
    [({"dp": 2, "tp": 2, "sp": True}, "fp32"), ({"dp": 2, "pp": 2}, "bf16")],
    ids=["dp2 tp2 sp fp32", "dp2 pp2 bf16"],
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    agreement.check_healthy(Config(**axes, zero=True, microbatches=4, precision=precision, steps=2))


def test_ranges_cut_through_parameters() -> None:
    whole = {"a": 10, "b": 5, "large": CAPACITY + 1, "c": 1}
    held = [torch.nn.Parameter(torch.zeros(size)) for size in whole.values()]
    buckets = Buckets(held, ProcessMesh({"pp": 1, "dp": 2}))
    half = CAPACITY // 2 + 1
    assert [buckets.ranges(p) for p in held] == [
        [(0, 8), (8, 10)],
        [(0, 0), (0, 5)],
        [(0, half), (half, CAPACITY + 1)],
        [(0, 1), (1, 1)],
    ]
    assert buckets.own(held[0], torch.arange(10)).tolist() == list(range(8))


def test_a_bucket_that_no_parameter_fills() -> None:
    bugs.activate(("G16",), {"zero"})
    with pytest.raises(bugs.BugError, match="--bug G16 cannot show: no parameter has 2048 elem"):
        Buckets([torch.nn.Parameter(torch.zeros(5))], ProcessMesh({"pp": 1, "dp": 2}))
    bugs.activate((), ())
