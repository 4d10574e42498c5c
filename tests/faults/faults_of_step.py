"""What goes wrong in a small step: values that are changed while it is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from small_step import LAYERS, WORDS, Array, Key, Run, step

Change = Callable[[Array], Array]


@dataclass(frozen=True)
class Fault:
    """What goes wrong in the run: values that are changed while the step is computed."""

    name: str
    changes: dict[Key, Change]
    dtype: str = "float32"
    mask: float = 0.0

    def run(self) -> Run:
        return step(self.dtype, self.mask, self.changes)


SPOT: Key = ("output", "layers.2.fc")
GRADIENT: Key = ("param_grad", "layers.2.fc.weight")
BIAS: Key = ("param_grad", "layers.2.fc.bias")
BACKWARD: Key = ("grad_output", "layers.2.act")
LOSS: Key = ("loss", "loss")
UNUSED: Key = ("param_after_step", "unused.weight")
GIVEN: Key = ("input", "layers.2.act")  # what SPOT is given to

ZEROED = Fault("an output is zeroed", {SPOT: np.zeros_like})
SCALED = Fault("an output is 1.5 times too large", {SPOT: lambda v: v * 1.5})
FLIPPED = Fault("a gradient has its sign flipped", {GRADIENT: np.negative})
BIAS_FLIPPED = Fault("a bias' gradient has its sign flipped", {BIAS: np.negative})
BACKWARD_LOST = Fault("half of a backward is lost", {BACKWARD: lambda v: v / 2})
LOSS_DOUBLED = Fault("the loss is doubled", {LOSS: lambda v: v * 2})
NORM_HALVED = Fault("the gradient norm is halved", {("grad_norm", "grad_norm"): lambda v: v / 2})
MAIN_DOUBLED = Fault(
    "a main gradient is doubled", {("main_grad", "layers.2.fc.weight"): lambda v: v * 2}
)
STEP_LOST = Fault(
    "a parameter moves the wrong way",
    {("param_after_step", "layers.2.fc.weight"): lambda v: v + 1},
)
ALL_FLIPPED = Fault(
    "all gradients have their signs flipped",
    {
        ("param_grad", f"layers.{i}.fc.{what}"): np.negative
        for i in range(LAYERS)
        for what in ("weight", "bias")
    }
    | {("param_grad", f"head.{what}"): np.negative for what in ("weight", "bias")},
)
EVERY_FAULT = (ZEROED, SCALED, FLIPPED, BIAS_FLIPPED, BACKWARD_LOST, LOSS_DOUBLED)


def wrong_scores(mask: float, dtype: str = "float32") -> Fault:
    added = 0.5 * np.arange(WORDS)
    return Fault(
        f"scores are off by 0.5·k beside a mask of {mask:g}",
        {("output", "mask"): lambda v: v + added},
        dtype,
        mask,
    )


def wrong_score(mask: float, dtype: str = "float32") -> Fault:
    def change(value: Array) -> Array:
        value = value.copy()
        value[5, 1] += 0.5
        return value

    return Fault(
        f"one score is off by 0.5 beside a mask of {mask:g}",
        {("output", "mask"): change},
        dtype,
        mask,
    )


def alternating(value: Array, part: float) -> Array:
    return (1 + part * (-1.0) ** np.arange(value.size)).reshape(value.shape)


def unused(name: str, change: Change) -> Fault:
    return Fault(f"a parameter that nothing uses {name}", {UNUSED: change})


def with_values(name: str, key: Key, value: float, most: int | None = None) -> Fault:
    """Elements of an output that are not finite; all, or the first `most`."""

    def change(values: Array) -> Array:
        values = values.copy()
        values.reshape(-1)[:most] = value
        return values

    return Fault(name, {key: change})
