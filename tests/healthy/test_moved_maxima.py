"""Elements of a max-pooling so nearly equal, and arguments so near the limit of a ReLU6, that
rounding decides between them: another order of the same sum is no fault."""

import json

import pytest
import torch
from answers import compared
from halves import Halves
from torch import nn

import ttrace_torch as tt

IMAGES, CHANNELS, SIDE, WIDTH = 32, 4, 8, 48
PIXELS = CHANNELS * SIDE * SIDE
TIED = 6  # windows or pixels; rounding decides some of them otherwise


class Model(nn.Module):
    def __init__(self, decide):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.images = Halves(WIDTH, PIXELS)
        self.to_images = nn.Unflatten(1, (CHANNELS, SIDE, SIDE))
        self.decide = decide
        self.head = nn.LazyLinear(11)

    def forward(self, x):
        return self.head(self.decide(self.to_images(self.images(self.first(x)))).flatten(1))


def tie_windows(model, x):
    """Makes another element of some windows equal to the greatest within rounding, in one image."""
    with torch.no_grad():
        values = model.to_images(model.images(model.first(x)))
        windows = values.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).flatten(1, 3)
        places = torch.arange(PIXELS).view(1, CHANNELS, SIDE, SIDE)
        places = places.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).flatten(1, 3)[0]
        for window, place in enumerate(places[:TIED]):
            of_image = windows[window % IMAGES, window]
            greatest = int(of_image.argmax())
            other = (greatest + 1) % 4
            model.images.bias[place[other]] += of_image[greatest] - of_image[other]


def reach_limit(model, x):
    """Makes some pixels equal to 6 within rounding in one image; others lie on both sides of it."""
    with torch.no_grad():
        model.images.weight *= 8
        values = model.images(model.first(x))
        pixel = torch.arange(8 * TIED)
        model.images.bias[: 8 * TIED] += 6 - values[pixel % IMAGES, pixel]


DECISIONS = {
    "maximum": (lambda: nn.MaxPool2d(2), tie_windows),
    "overlapping": (lambda: nn.MaxPool2d(3, 2, 1), tie_windows),
    "limit": (nn.ReLU6, reach_limit),
}


def trained(path, decision, *, halves=False, plant=lambda model: None):
    torch.manual_seed(0)
    decide, prepare = DECISIONS[decision]
    model = Model(decide())
    x = torch.randn(IMAGES, WIDTH)
    model(x)
    prepare(model, x)
    model.images.halves = halves
    plant(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=path)
    with tracer.step(0):
        tracer.loss(nn.functional.cross_entropy(model(x), torch.arange(IMAGES) % 11)).backward()
        optimizer.step()
    tracer.close()


@pytest.fixture(scope="module", params=DECISIONS)
def runs(request, tmp_path_factory):
    """A folder with the reference, and what trains a candidate beside it."""
    folder = tmp_path_factory.mktemp("maxima")
    trained(folder / "reference.h5", request.param)

    def candidate(**how):
        trained(folder / "run.h5", request.param, halves=True, **how)
        return compared(folder)

    return folder, candidate


def test_other_order_of_a_sum_matches_and_the_elements_are_counted(runs):
    folder, candidate = runs
    answer = candidate()
    assert answer.code == 0, answer.line
    assert "kink" in answer.line
    kinks = json.loads((folder / "report.json").read_text(encoding="utf-8"))["kinks"]
    assert any(kink["at_limits"] + kink["at_maxima"] > 0 for kink in kinks)
    assert all(kink["largest"] <= 8 * kink["noise"] for kink in kinks)


def swap_in_backward(model):
    """The gradients of two neighbours in every row, the other way round."""
    model.to_images.register_full_backward_pre_hook(
        lambda module, gradients: (gradients[0].roll(1, dims=-1),)
    )


def lose_a_pixel(model):
    def hook(module, gradients):
        lost = gradients[0].clone()
        lost.view(-1)[lost.abs().argmax()] = 0
        return (lost,)

    model.to_images.register_full_backward_pre_hook(hook)


@pytest.mark.parametrize("plant", [swap_in_backward, lose_a_pixel])
def test_gradient_that_goes_elsewhere_is_found(runs, plant):
    answer = runs[1](plant=plant)
    assert answer.code == 1, answer.line
