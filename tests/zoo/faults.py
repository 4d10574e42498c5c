"""One fault in a healthy miniature, drawn by a seed.

A fault changes what the model computes behind the back of the tracer, as a bug in a kernel, a
wrapper or a hook would. It names the module at which it shows first.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

SEED = 20261124
_EPSILONS = ("eps", "variance_epsilon", "layer_norm_epsilon")


@dataclass(frozen=True)
class Fault:
    """name: what it is; module: where; plant: changes the model."""

    name: str
    module: str
    plant: Callable[[], None]


def draw(kind: str, task: str, model: nn.Module) -> Fault | None:
    """The fault of this architecture: the same one for the same seed. Another one if that one does
    not fit; None if none does."""
    chance = random.Random(zlib.crc32(f"{SEED} {kind} {task}".encode()))
    makers = [_weight_gradient, _sign, _epsilon, _skipped, _stale, _next_expert]
    chance.shuffle(makers)
    for maker in makers:
        fault = maker(model, chance)
        if fault is not None:
            return fault
    return None


def _parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad and p.grad is not None]


def _hooked(name: str, model: nn.Module, chance: random.Random, factor: float) -> Fault | None:
    wide = [(n, p) for n, p in _parameters(model) if p.ndim >= 2 and p.grad.abs().max() > 0]
    if not wide:
        return None
    where, parameter = chance.choice(wide)

    def plant() -> None:
        parameter.register_hook(lambda gradient: gradient * factor)

    return Fault(name, where.rpartition(".")[0], plant)


def _weight_gradient(model: nn.Module, chance: random.Random) -> Fault | None:
    return _hooked("weight gradient × 1.05", model, chance, 1.05)


def _sign(model: nn.Module, chance: random.Random) -> Fault | None:
    return _hooked("sign of a weight gradient", model, chance, -1.0)


def _epsilon(model: nn.Module, chance: random.Random) -> Fault | None:
    found = [
        (name, module, attribute)
        for name, module in model.named_modules()
        for attribute in _EPSILONS
        if isinstance(getattr(module, attribute, None), float)
        and "norm" in type(module).__name__.lower()
    ]
    if not found:
        return None
    name, module, attribute = chance.choice(found)

    def plant() -> None:
        setattr(module, attribute, getattr(module, attribute) * 100 + 1e-3)

    return Fault("another epsilon", name, plant)


def _modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules of one tensor that return one of the same shape, by what ran last."""
    return [
        (name, module)
        for name, module in model.named_modules()
        if getattr(module, "_zoo_same_shape", False) and list(module.parameters())
    ]


def _wrapped(
    name: str,
    model: nn.Module,
    chance: random.Random,
    change: Callable[[Callable[..., Any], torch.Tensor], Any],
) -> Fault | None:
    found = _modules(model)
    if not found:
        return None
    where, module = chance.choice(found)

    def plant() -> None:
        forward = module.forward
        module.forward = lambda x, *rest, **named: change(
            lambda one: forward(one, *rest, **named), x
        )

    return Fault(name, where, plant)


def _skipped(model: nn.Module, chance: random.Random) -> Fault | None:
    return _wrapped("a skipped module", model, chance, lambda forward, x: x * 1)


def _stale(model: nn.Module, chance: random.Random) -> Fault | None:
    # What another sequence of the batch was given.
    return _wrapped("a stale input", model, chance, lambda forward, x: forward(x.roll(1, 0)))


def _next_expert(model: nn.Module, chance: random.Random) -> Fault | None:
    found = [
        (name, module)
        for name, module in model.named_modules()
        if getattr(module, "_zoo_experts", 0) > 1
    ]
    if not found:
        return None
    where, module = chance.choice(found)
    count = module._zoo_experts

    def plant() -> None:
        forward = module.forward

        def shifted(hidden: torch.Tensor, index: torch.Tensor, *rest: Any, **named: Any) -> Any:
            return forward(hidden, (index + 1) % count, *rest, **named)

        module.forward = shifted

    return Fault("the next expert", where, plant)


def observe(model: nn.Module) -> list[Any]:
    """Notes, while the model runs, where faults can be planted; returns handles to remove."""

    def noted(module: nn.Module, inputs: Any, output: Any) -> None:
        same = (
            len(inputs) > 0
            and isinstance(inputs[0], torch.Tensor)
            and isinstance(output, torch.Tensor)
            and inputs[0].is_floating_point()
            and inputs[0].shape == output.shape
        )
        module._zoo_same_shape = same
        count = getattr(module, "num_experts", 0)
        if len(inputs) >= 2 and isinstance(count, int) and isinstance(inputs[1], torch.Tensor):
            if inputs[1].dtype == torch.int64 and "Experts" in type(module).__name__:
                module._zoo_experts = count

    return [module.register_forward_hook(noted) for module in model.modules()]
