"""Interpolations of images, and their gradients, are judged; another one is found."""

from __future__ import annotations

import pytest
import torch
from answers import audited
from torch import nn
from torch.nn import functional

import ttrace_torch as tt

# Of an image of 10 × 7 and of a line of 70: larger and smaller, by a size or a factor.
WAYS = {
    "bilinear": {"size": (17, 5), "mode": "bilinear"},
    "bicubic": {"scale_factor": 1.7, "mode": "bicubic"},
    "antialias": {"size": (4, 3), "mode": "bilinear", "antialias": True},
    "bicubic antialias": {"size": (5, 20), "mode": "bicubic", "antialias": True},
    "linear": {"scale_factor": 0.6, "mode": "linear"},
}


class Resized(nn.Module):
    def __init__(self, corners, wide):
        super().__init__()
        self.corners, self.wide = corners, wide

    def forward(self, x, way):
        taken = x.double() if self.wide else x
        return functional.interpolate(taken, align_corners=self.corners, **WAYS[way]).to(x.dtype)


class Model(nn.Module):
    def __init__(self, corners=False, wide=False):
        super().__init__()
        torch.manual_seed(0)
        self.encode = nn.Conv2d(3, 4, 3)
        self.resize = Resized(corners, wide)
        self.decode = nn.Linear(4, 2)

    def forward(self, x, way):
        x = self.encode(x)
        x = self.resize(x.flatten(2) if way == "linear" else x, way)
        return self.decode(x.sin().flatten(2).mean(2)).square().mean()


def train(folder, way, dtype, specification=None, columns=9, **other):
    model = Model(**other).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    images = torch.randn(2, 3, 12, columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    with tracer.step(0):
        tracer.loss(model(images, way)).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize(
    ("way", "dtype"),
    [*((way, torch.float32) for way in WAYS), ("bilinear", torch.bfloat16)],
    ids=str,
)
def test_every_tensor_around_an_interpolation_is_judged(tmp_path, way, dtype):
    train(tmp_path, way, dtype, tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer

    train(tmp_path, way, dtype, corners=True)
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "output resize"


@pytest.mark.parametrize("way", ["bilinear", "bicubic", "bicubic antialias"])
def test_a_kernel_that_rounds_places_differently_holds(tmp_path, way):
    """As that of a GPU: here one that takes places and weights in float64."""
    train(tmp_path, way, torch.float32, tmp_path / "specification.json", columns=42)
    train(tmp_path, way, torch.float32, columns=42, wide=True)
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer


def test_the_matrix_of_a_large_image_is_left_out(tmp_path):
    train(tmp_path, "bicubic", torch.float32, tmp_path / "specification.json", columns=112)
    answer = audited(tmp_path)
    assert answer.code == 0, answer
    assert 0 < answer.tensors - answer.judged <= 2, answer
