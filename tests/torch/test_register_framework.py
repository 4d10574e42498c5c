"""A job registers an adapter of a framework of its own, as ours are."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.frameworks import registry


class Wrapped(nn.Module):
    """What a framework of one's own puts around a model."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.own_wrapper = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.own_wrapper(x)


class WithoutWrapper(tt.Naming):
    def of_modules(self, part: nn.Module) -> dict[str, str | None]:
        found = super().of_modules(part.own_wrapper if isinstance(part, Wrapped) else part)
        if not isinstance(part, Wrapped):
            return found
        inside = {f"own_wrapper.{path}".rstrip("."): name for path, name in found.items()}
        return {"": None, **inside}

    def of_parameters(self, part: nn.Module) -> dict[str, str]:
        found = super().of_parameters(part)
        return {path: name.removeprefix("own_wrapper.") for path, name in found.items()}


class Own(tt.Framework):
    name = "own"
    label = "Own 1.0"

    @staticmethod
    def made(model: object) -> bool:
        return isinstance(model, Wrapped)

    def naming(self) -> tt.Naming:
        return WithoutWrapper()


@pytest.fixture(autouse=True)
def _only_here(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def traced(model, path, **arguments):
    with tt.trace(model, out=path, **arguments) as tracer, tracer.step(0):
        tracer.loss(model(torch.ones(3, 2)).sum()).backward()
    return Trace(path)


def test_its_models_are_known_by_their_class(tmp_path):
    plain = traced(nn.Sequential(nn.Linear(2, 2)), tmp_path / "plain.h5")
    before = traced(Wrapped(nn.Sequential(nn.Linear(2, 2))), tmp_path / "before.h5")
    assert "own_wrapper.0.weight" in before.names("param")
    assert tt.register_framework(Own) is Own
    after = traced(Wrapped(nn.Sequential(nn.Linear(2, 2))), tmp_path / "after.h5")
    assert after.names("param") == plain.names("param") == ["0.weight", "0.bias"]
    assert after.manifest["run"]["framework"] == "Own 1.0"
    assert traced(nn.Linear(2, 2), tmp_path / "other.h5").names("param") == ["weight", "bias"]


def test_it_is_chosen_by_its_name(tmp_path):
    with pytest.raises(tt.TraceError, match=r"framework='own' is none of auto, none, deepspeed"):
        traced(nn.Linear(2, 2), tmp_path / "unknown.h5", framework="own")
    tt.register_framework(Own)
    found = traced(nn.Linear(2, 2), tmp_path / "named.h5", framework="own")
    assert found.manifest["run"]["framework"] == "Own 1.0"


class MiddleStage(tt.Naming):
    """A part amid a model: none of its modules is the whole."""

    def of_modules(self, part: nn.Module) -> dict[str, str | None]:
        return {path: f"layers.3.{path}" if path else None for path, _ in part.named_modules()}

    def of_parameters(self, part: nn.Module) -> dict[str, str]:
        return {path: f"layers.3.{path}" for path, _ in part.named_parameters()}


class Staged(Own):
    name = "staged"

    def naming(self) -> tt.Naming:
        return MiddleStage()

    def model_class(self, names) -> str:
        return "Whole"


def test_a_stage_amid_a_pipeline_is_recorded(tmp_path, capsys):
    tt.register_framework(Staged)
    found = traced(nn.Sequential(nn.Linear(2, 2)), tmp_path / "stage.h5", framework="staged")
    assert sorted(found.names("param_grad")) == ["layers.3.0.bias", "layers.3.0.weight"]
    assert found.names("output") == ["layers.3.0"]
    assert "not recorded" not in capsys.readouterr().err


def test_the_last_one_registered_is_asked_first(tmp_path):
    class Second(Own):
        name = "second"
        label = "Second"

    tt.register_framework(Own)
    tt.register_framework(Second)
    tt.register_framework(Own)  # again: changes nothing
    found = traced(Wrapped(nn.Linear(2, 2)), tmp_path / "run.h5")
    assert found.manifest["run"]["framework"] == "Second"


class Nameless(tt.Framework):
    @staticmethod
    def made(model: object) -> bool:
        return False


class Unasked(tt.Framework):
    name = "unasked"


class Automatic(Nameless):
    name = "auto"


class Taken(Nameless):
    name = "megatron"


@pytest.mark.parametrize(
    "cls, reason",
    [
        (nn.Module, "give a class derived from tt.Framework"),
        (Own(None), "give a class derived from tt.Framework"),
        (Nameless, "says its `name`"),
        (Unasked, r"by `made\(model\)`"),
        (Automatic, "says its `name`, none of auto, none"),
        (Taken, "megatron.Megatron has the name 'megatron' already"),
    ],
)
def test_what_says_no_framework_is_refused(cls, reason):
    with pytest.raises(tt.TraceError, match=reason):
        tt.register_framework(cls)
