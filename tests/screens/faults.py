"""Faults that a seed draws: a mechanism, a layout of the miniature trainer, a module, and ranks.

Each is planted into the trainer while it runs, so that its consequences follow; what it makes wrong
first is written down with it, before anything is compared.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import gallery.train
import torch
from gallery import microbatches
from gallery.config import Config
from gallery.model import Gpt
from gallery.optim import Optimizer
from gallery.parallel import lines
from torch import Tensor, nn

# What each module's input is made by, within its layer.
BEFORE = {
    "norm1": "",
    "attn.qkv": "norm1",
    "attn.proj": "attn.core",
    "norm2": "attn",
    "mlp.fc1": "norm2",
    "mlp.fc2": "mlp.fc1",
}
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"tp": 2},
    {"tp": 2, "sp": True},
    {"dp": 2},
    {"cp": 2},
    {"pp": 2},
    {"dp": 2, "tp": 2},
)


@dataclass(frozen=True)
class Fault:
    """ranks: of which it is made. axis: the one that tells them from the others, "" if all are."""

    mechanism: str
    config: Config
    layer: int
    module: str
    ranks: tuple[int, ...]
    axis: str
    factor: float

    @property
    def name(self) -> str:
        return f"layers.{self.layer}.{self.module}"

    @property
    def kinds(self) -> tuple[str, ...]:
        return MECHANISMS[self.mechanism].kinds

    def places(self) -> tuple[str, ...]:
        """The names of what is wrong first: the module with its parameters, and of a gradient also
        what its input comes from, whose output's gradient is the wrong one."""
        if self.mechanism == "other tokens":
            return ("(model)", "(model)[[]*", "ids", "labels", "embedding*")
        found = (self.name, f"{self.name}.*")
        if self.mechanism != "scaled gradient":
            return found
        before = BEFORE[self.module]
        if before:
            return (*found, f"layers.{self.layer}.{before}", f"layers.{self.layer}.{before}.*")
        return (*found, f"layers.{self.layer - 1}", "embedding") if self.layer else found

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Forks that begin inside train with it."""
        with MECHANISMS[self.mechanism].plant(self):
            yield


@dataclass(frozen=True)
class Mechanism:
    """kinds: of the tensors that are wrong first. axes: of which one is in the layout, if any."""

    kinds: tuple[str, ...]
    plant: Callable[[Fault], Any]
    axes: tuple[str, ...] = ()


def drawn(seed: int, count: int) -> list[Fault]:
    """Always the same for a seed; every mechanism once before one comes again."""
    draw = random.Random(seed)
    mechanisms = [
        name
        for _ in range(-(-count // len(MECHANISMS)))
        for name in draw.sample(sorted(MECHANISMS), len(MECHANISMS))
    ]
    return [_drawn(draw, mechanism) for mechanism in mechanisms[:count]]


def _drawn(draw: random.Random, mechanism: str) -> Fault:
    needed = MECHANISMS[mechanism].axes
    layout = draw.choice([one for one in LAYOUTS if not needed or set(needed) & set(one)])
    layers = draw.choice((2, 3, 4))
    config = Config(microbatches=4, layers=layers, **layout)
    axis = draw.choice(["", *(name for name, size in config.mesh_sizes.items() if size > 1)])
    ranks: tuple[int, ...] = tuple(range(config.ranks))
    if needed or axis == "pp":  # of stages only one has the module
        axis = needed[0] if needed else ""
    elif axis:
        index = draw.randrange(config.mesh_sizes[axis])
        ranks = tuple(line[index] for line in lines(config.mesh_sizes, axis))
    factor = draw.choice((1.02, 1.1, 0.5, 2.0))
    layer, module = draw.randrange(layers), draw.choice(sorted(BEFORE))
    return Fault(mechanism, config, layer, module, ranks, axis, factor)


def _here(fault: Fault) -> bool:
    return int(os.environ.get("RANK", "0")) in fault.ranks


def _parameters(fault: Fault, model: nn.Module) -> list[nn.Parameter]:
    prefix = f"{fault.name}."
    return [p for name, p in model.named_parameters() if name.startswith(prefix)]


def _weight(fault: Fault, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
    return [p for p in parameters if getattr(p, "is_faulty", False)]


def _with_model(fault: Fault, change: Callable[[Gpt], None]) -> Any:
    """Calls `change` once the model has its weights, on the ranks of the fault."""
    real = gallery.train.initialise

    def initialise(model: Gpt, mesh: Any, seed: int) -> None:
        real(model, mesh, seed)
        if _here(fault):
            change(model)

    return mock.patch.object(gallery.train, "initialise", initialise)


def _marked(fault: Fault, model: Gpt) -> None:
    """Marks the weight, which later is known by its mark alone."""
    for parameter in _parameters(fault, model)[:1]:
        parameter.is_faulty = True


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def _inside(fault: Fault, change: Callable[[Tensor], Tensor]) -> Any:
    """Changes what the module computes; a hook would come after what is recorded."""

    def wrap(model: Gpt) -> None:
        module = dict(model.named_modules()).get(fault.name)
        if module is not None:
            real = module.forward
            module.forward = lambda *inputs: change(real(*inputs))

    return _with_model(fault, wrap)


def _scaled_output(fault: Fault) -> Any:
    return _inside(fault, lambda output: output * fault.factor)


def _scaled_gradient(fault: Fault) -> Any:
    return _inside(fault, lambda output: _Scaled.apply(output, fault.factor))


def _other_weights(fault: Fault) -> Any:
    @torch.no_grad()
    def change(model: Gpt) -> None:
        for parameter in _parameters(fault, model)[:1]:
            parameter.mul_(fault.factor)

    return _with_model(fault, change)


@contextmanager
def _of_weight(fault: Fault, where: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    with _with_model(fault, lambda model: _marked(fault, model)):
        with mock.patch.object(where, name, make(getattr(where, name))):
            yield


def _lost_microbatch(fault: Fault) -> Any:
    """What a rank's first micro-batch gives is not added to the main gradient."""

    def make(real: Any) -> Any:
        def accumulate(parameters: Any, weight: float) -> None:
            given = list(parameters)
            for parameter in _weight(fault, given):
                if not hasattr(parameter, "was_lost"):
                    parameter.was_lost, parameter.grad = True, None
            real(given, weight)

        return accumulate

    return _of_weight(fault, gallery.train, "accumulate_main_gradients", make)


def _not_reduced(fault: Fault) -> Any:
    def make(real: Any) -> Any:
        def finalize(parameters: Any, mesh: Any, buckets: Any) -> None:
            before = [(p, p.main_grad.clone()) for p in _weight(fault, parameters)]
            real(parameters, mesh, buckets)
            for parameter, gradient in before:
                parameter.main_grad = gradient

        return finalize

    return _of_weight(fault, gallery.train, "finalize_gradients", make)


def _stepped(fault: Fault, times: float) -> Any:
    def make(real: Any) -> Any:
        @torch.no_grad()
        def step(optimizer: Optimizer) -> None:
            before = [(p, p.clone()) for p in _weight(fault, optimizer.parameters)]
            real(optimizer)
            for parameter, value in before:
                parameter.copy_(value + times * (parameter - value))

        return step

    return _of_weight(fault, Optimizer, "step", make)


def _other_tokens(fault: Fault) -> Any:
    """The second micro-batch of a step is that of another step."""
    real = microbatches.local_tokens

    def local_tokens(config: Config, cp: Any, step: int, number: int) -> Any:
        wrong = _here(fault) and number % config.microbatches_of_rank == 1
        return real(config, cp, step + 1 if wrong else step, number)

    return mock.patch.object(microbatches, "local_tokens", local_tokens)


MECHANISMS = {
    "scaled output": Mechanism(("output",), _scaled_output),
    "scaled gradient": Mechanism(("param_grad", "grad_output"), _scaled_gradient),
    "other weights": Mechanism(("param",), _other_weights),
    "lost micro-batch": Mechanism(("main_grad",), _lost_microbatch),
    "not reduced over dp": Mechanism(("main_grad",), _not_reduced, axes=("dp",)),
    "no update": Mechanism(("param_after_step",), lambda fault: _stepped(fault, 0.0)),
    "other update": Mechanism(("param_after_step",), lambda fault: _stepped(fault, fault.factor)),
    "other tokens": Mechanism(("input",), _other_tokens),
}
