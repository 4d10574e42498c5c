"""Which of several ways a module computes in stands in the manifest."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import torch
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt


class Attention(nn.Module):
    """Asks its configuration, as transformers' attention modules do."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if self.config._attn_implementation == "eager":
            weights = torch.softmax(self.linear(x), -1)
            return weights * x, weights
        return torch.softmax(self.linear(x), -1) * x, None


class Wrapped(Attention):
    @functools.wraps(Attention.forward)
    def forward(self, *args, **kwargs):
        return Attention.forward(self, *args, **kwargs)


class Feeding(nn.Module):
    """Has the configuration and does not ask it."""

    def __init__(self, config):
        super().__init__()
        self.config = config

    def forward(self, x):
        return torch.relu(x)


class Model(nn.Module):
    def __init__(self, config, attention=Attention):
        super().__init__()
        self.attn = attention(config)
        self.mlp = Feeding(config)

    def forward(self, x):
        return self.mlp(self.attn(x)[0])


def modules_of(tmp_path, config, attention=Attention):
    model = Model(config, attention)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        tracer.loss(model(torch.randn(2, 4)).sum()).backward()
    tracer.close()
    modules = Trace(tmp_path / "run.h5").modules
    return {n: m["implementation"] for n, m in modules.items() if "implementation" in m}


def test_the_module_that_asks_its_configuration_says_what_it_was_told(tmp_path):
    for kind in (Attention, Wrapped):
        for name in ("eager", "sdpa"):
            config = SimpleNamespace(_attn_implementation=name)
            assert modules_of(tmp_path, config, kind) == {"attn": {"attention": name}}


def test_what_is_no_text_says_nothing(tmp_path):
    config = SimpleNamespace(_attn_implementation=None)
    assert modules_of(tmp_path, config) == {}
