"""Which optimizer makes the steps, inside whatever a job has put around it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.distributed.optim import PostLocalSGDOptimizer
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.optimizer import wrappers
from ttrace_torch.optimizer.wrappers import Unwrapped, register_optimizer_wrapper, unwrapped


class AcceleratedOptimizer:
    """What accelerate makes of an optimizer, as far as the collector looks."""

    def __init__(self, optimizer: object, scaler: object = None) -> None:
        self.optimizer, self.scaler = optimizer, scaler


class ZeroRedundancyOptimizer(torch.optim.SGD):
    """By its name."""


def sgd(kind: type[torch.optim.SGD] = torch.optim.SGD) -> torch.optim.SGD:
    return kind([nn.Parameter(torch.ones(2))], lr=0.1)


def test_a_plain_optimizer_makes_its_own_steps() -> None:
    plain = sgd()
    assert unwrapped(plain) == Unwrapped(plain)
    assert unwrapped([plain]) == Unwrapped(plain)
    assert unwrapped(None) == Unwrapped(None)
    several = [sgd(), sgd()]
    assert unwrapped(several) == Unwrapped(several)


def test_what_each_wrapper_changes_is_known() -> None:
    plain, zero = sgd(), sgd(ZeroRedundancyOptimizer)
    assert unwrapped(AcceleratedOptimizer(plain, "scaler")) == Unwrapped(plain, "scaler", True)
    averaging = PostLocalSGDOptimizer(plain, SimpleNamespace())
    assert unwrapped(averaging) == Unwrapped(plain)
    assert unwrapped(zero) == Unwrapped(zero)


def test_wrappers_inside_wrappers_are_opened() -> None:
    plain, zero = sgd(), sgd(ZeroRedundancyOptimizer)
    inner = PostLocalSGDOptimizer(plain, SimpleNamespace())
    assert unwrapped(AcceleratedOptimizer(inner)) == Unwrapped(plain, None, True)
    found = unwrapped([AcceleratedOptimizer(zero, "scaler"), plain])
    assert found == Unwrapped([zero, plain], "scaler", True)


def test_a_job_registers_a_wrapper_of_its_own(monkeypatch, tmp_path) -> None:
    class Own:
        def __init__(self, inside: torch.optim.Optimizer) -> None:
            self.inside = inside

    class OwnWrapper:
        def wraps(self, optimizer: object) -> bool:
            return isinstance(optimizer, Own)

        def unwrapped(self, optimizer: Own) -> Unwrapped:
            return Unwrapped(optimizer.inside)

    def recorded(name: str) -> Trace:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with tt.trace(model, Own(optimizer), out=tmp_path / name) as tracer, tracer.step(0):
            tracer.loss(model(torch.ones(1, 2)).sum()).backward()
            optimizer.step()
        return Trace(tmp_path / name)

    with pytest.raises(tt.TraceError, match="Own"):
        recorded("unknown.h5")
    monkeypatch.setattr(wrappers, "_registered", list(wrappers._registered))
    register_optimizer_wrapper(OwnWrapper())
    assert recorded("known.h5").names("param_after_step") == ["weight", "bias"]
