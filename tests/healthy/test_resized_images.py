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
    def __init__(self, corners):
        super().__init__()
        self.corners = corners

    def forward(self, x, way):
        return functional.interpolate(x, align_corners=self.corners, **WAYS[way])


class Model(nn.Module):
    def __init__(self, corners=False):
        super().__init__()
        torch.manual_seed(0)
        self.encode = nn.Conv2d(3, 4, 3)
        self.resize = Resized(corners)
        self.decode = nn.Linear(4, 2)

    def forward(self, x, way):
        x = self.encode(x)
        x = self.resize(x.flatten(2) if way == "linear" else x, way)
        return self.decode(x.sin().flatten(2).mean(2)).square().mean()


def train(folder, way, dtype, corners=False, specification=None):
    model = Model(corners).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    images = torch.randn(2, 3, 12, 9, generator=torch.Generator().manual_seed(1)).to(dtype)
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
    train(tmp_path, way, dtype, specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer

    train(tmp_path, way, dtype, corners=True)
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "output resize"
