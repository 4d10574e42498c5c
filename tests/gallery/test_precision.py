"""Precisions of 16 and 8 bits."""

import pytest
import torch
from support.long_cases import chosen

from gallery import bugs, fp8
from gallery.agreement import BOTH, Agreement
from gallery.config import Config
from gallery.delayed_scaling import GradientScale
from gallery.parallel import ProcessMesh

STAGES, SEQUENCE = {"dp": 2, "pp": 2}, {"cp": 2, "tp": 2, "sp": True}


@pytest.mark.parametrize(
    ("axes", "precision"),
    chosen(
        "layouts in fp16 and fp8",
        [
            pytest.param(STAGES, "fp16", id="dp2 pp2-fp16"),
            pytest.param(SEQUENCE, "fp8", id="cp2 tp2 sp-fp8"),
        ],
        [
            pytest.param(STAGES, "fp8", id="dp2 pp2-fp8"),
            pytest.param(SEQUENCE, "fp16", id="cp2 tp2 sp-fp16"),
        ],
    ),
)
def test_healthy(agreement: Agreement, axes: dict, precision: str) -> None:
    agreement.check_healthy(
        Config(**axes, microbatches=2 * axes.get("dp", 1), precision=precision), BOTH
    )


def test_fp8_rounds_to_a_grid_of_the_whole_tensors_scale() -> None:
    bugs.activate((), ())
    linear = fp8.Linear((), ())
    x = torch.tensor([[0.5, -3.0, 7.0]], requires_grad=True)
    weight = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], requires_grad=True)
    product = linear(x, weight)
    # Scaled by 64, 32 and 448 lie on the grid and -192 too.
    assert product.tolist() == [[0.5, 7.0]]
    product.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 1.0]]
    assert weight.grad.tolist() == [[0.5, -3.0, 7.0]] * 2
    between = torch.tensor([[7.0, 0.53]])  # 33.92 lies between 32 and 36
    assert linear(between, torch.eye(2)).tolist() == [[7.0, 0.5]]


def test_gradients_are_rounded_by_the_scale_of_the_step_before() -> None:
    bugs.activate((), ())
    config = Config(precision="fp8", delayed_scaling=True)
    scale = GradientScale(config, ProcessMesh(config.mesh_sizes))
    gradient = torch.tensor([2**-20, 7 * 2**-10])
    scale.forward()
    assert scale.rounded(gradient).tolist() == [0.0, 7 * 2**-10]  # the smallest is 2**-16
    scale.finish_step()
    assert scale.rounded(gradient).tolist() == gradient.tolist()


def test_the_loss_scale_is_1024_in_fp16() -> None:
    assert Config(precision="fp16").scale_of_loss == 1024
    assert Config(precision="fp16", loss_scale=8).scale_of_loss == 8
    assert Config().scale_of_loss == 1
