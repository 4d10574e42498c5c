"""Optimizers that compute in bf16 from gradients in float32, as Muon does: sums over ranks in
another order put a healthy candidate's weights a rounding of bf16 away, which one noise run need
not show."""

import pytest
import torch
from answers import compared
from torch import nn

import ttrace_torch as tt

STEPS, WIDTH = 3, 64


class Orthogonal(torch.optim.Optimizer):
    """Moves weights along the orthogonal factor of their gradients, found in bf16 by the polynomial
    of Muon. parts: the products are added up from so many, as over ranks."""

    def __init__(self, parameters, parts=1):
        super().__init__(parameters, {"lr": 0.02})
        self.parts = parts

    def product(self, a, b):
        pairs = zip(a.chunk(self.parts, 1), b.chunk(self.parts, 0), strict=True)
        return sum(left @ right for left, right in pairs)

    @torch.no_grad()
    def step(self, closure=None):
        for weight in self.param_groups[0]["params"]:
            x = weight.grad.bfloat16()
            x = x / x.norm()
            for _ in range(5):
                square = self.product(x, x.T)
                x = 3.4445 * x + self.product(-4.775 * square + 2.0315 * square @ square, x)
            weight.sub_(self.param_groups[0]["lr"] * x)


def trained(path, *, parts=1, seed=None, plant=lambda model: None):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU(), nn.Linear(WIDTH, WIDTH, bias=False)
    )
    plant(model)
    optimizer = Orthogonal(model.parameters(), parts)
    perturb = None if seed is None else tt.Perturb(seed)
    tracer = tt.trace(model, optimizer, out=path, perturb=perturb, steps=range(STEPS))
    x, y = torch.randn(2, 32, WIDTH).unbind()
    for step in range(STEPS):
        with tracer.step(step):
            loss = (model(x) - y).square().mean()
            tracer.loss(loss).backward()
            optimizer.step()
        optimizer.zero_grad()
    tracer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounding")
    trained(folder / "reference.h5")
    trained(folder / "noise.h5", seed=1)
    return folder


@pytest.mark.parametrize("noise", [("noise.h5",), ()], ids=["noise", "none"])
def test_another_order_of_sums_is_accused_of_nothing(folder, noise):
    trained(folder / "run.h5", parts=2)
    answer = compared(folder, noise=noise)
    assert not answer.found and answer.code in (0, 3), answer


def near_a_tie(model):
    """Moves the second weight's gradient by a thousandth, and with it roundings of its update."""

    def hook(gradient):
        drawn = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(5))
        return gradient + 1e-3 * gradient.abs().max() * drawn

    model[2].weight.register_hook(hook)


def test_noise_of_one_weight_says_nothing_of_another(folder):
    trained(folder / "other.h5", seed=1, plant=near_a_tie)
    trained(folder / "run.h5", parts=2)
    answer = compared(folder, noise=("other.h5",))
    assert not answer.found and answer.code in (0, 3), answer
    trained(folder / "run.h5", parts=2, plant=late)
    answer = compared(folder, noise=("other.h5",))
    assert answer.code == 1 and answer.found[0] == "param_grad 0.weight", answer


def late(model):
    """A gradient 5 % too large from the second step on."""
    seen = []

    def hook(gradient):
        seen.append(gradient)
        return gradient if len(seen) == 1 else gradient * 1.05

    model[0].weight.register_hook(hook)


@pytest.mark.parametrize("noise", [("noise.h5",), ()], ids=["noise", "none"])
def test_a_factor_in_a_later_step_is_found(folder, noise):
    trained(folder / "run.h5", parts=2, plant=late)
    answer = compared(folder, noise=noise)
    assert answer.code == 1 and answer.found[0] == "param_grad 0.weight", answer
