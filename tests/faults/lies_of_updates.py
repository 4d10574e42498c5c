"""Lies about the optimizer's step: updates that nobody can judge, steps in which nothing moves, and
numbers of the step that no step has."""

from __future__ import annotations

import numpy as np
from faults_of_step import MAIN_DOUBLED, STEP_LOST, Fault
from lies_of_specification import Lie, after_backward, kinds
from lies_of_trace import drop
from small_step import RATE, Run
from variants import Variant, both, each

NOTHING = Fault("the run is as it was", {})


def groups(**settings: object) -> Lie:
    """Settings of every parameter group."""

    def lie(run: Run) -> None:
        for group in run.manifest["optimizer"]:
            group.update(settings)

    return lie


def renamed_parameters(run: Run) -> None:
    """As of an optimizer that holds copies of the parameters."""
    for group in run.manifest["optimizer"]:
        group["params"] = [f"masters.{name}" for name in group["params"]]


def no_optimizer(run: Run) -> None:
    run.manifest["optimizer"] = []


def still(run: Run) -> None:
    """No parameter moves."""
    for kind, name in list(run.values):
        if kind == "param_after_step":
            run.values[kind, name] = run.values["param", name]


def number(kind: str, name: str, value: float) -> Lie:
    def lie(run: Run) -> None:
        run.values[kind, name] = np.array(value, "float32")

    return lie


def negative_norm(run: Run) -> None:
    run.values["grad_norm", "grad_norm"] = -run.values["grad_norm", "grad_norm"]


def states(run: Run) -> None:
    """What a resumed run begins with; a run alone does not say whose states they are."""
    for kind, name in list(run.values):
        if kind == "main_grad":
            zeros = np.zeros_like(run.values[kind, name])
            run.values["optimizer_state", f"{name}.momentum_buffer"] = zeros


def unmoved(lies: dict[str, Lie]) -> list[Variant]:
    return each({name: both(still, lie) for name, lie in lies.items()}, NOTHING)


ADAM = {"type": "adam", "betas": [0.9, 0.999], "eps": 1e-8, "amsgrad": False}


def mechanisms() -> dict[str, list[Variant]]:
    return {
        "updates of an optimizer that is not replayed": each(
            {
                "unknown": groups(type="muon"),
                "copies of the parameters": renamed_parameters,
                "none": no_optimizer,
                "empty groups": groups(params=[]),
                "states that were not recorded": groups(**ADAM, updates=5),
                "an impossible setting": groups(lr=-RATE),
            },
            STEP_LOST,
        ),
        "updates that were not recorded": [
            *each({"all": drop(kinds("param_after_step"))}, STEP_LOST),
            *each(
                {
                    "nor parameters": drop(kinds("param_after_step", "param")),
                    "all": drop(kinds("param_after_step")),
                },
                NOTHING,
            ),
        ],
        "a step in which nothing moves": unmoved(
            {
                "clipped to nothing": groups(clip_norm=1e-30),
                "a rate of 0, later": groups(lr=0.0, updates=7),
                "a tiny rate": groups(lr=1e-30),
                "no optimizer": no_optimizer,
                "empty groups": groups(params=[]),
            }
        ),
        "a limit that the specification has otherwise": [
            *each(
                {
                    "tiny": both(still, after_backward(clip_norm=1.0), groups(clip_norm=1e-30)),
                    "lost": after_backward(clip_norm=1e-3),
                    "a half": both(after_backward(clip_norm=0.1), groups(clip_norm=0.05)),
                },
                NOTHING,
            ),
        ],
        "a norm that is negative": [
            *each({"it": negative_norm}, NOTHING),
            *each({"and another fault": negative_norm}, MAIN_DOUBLED),
            *each({"clipped by it": both(negative_norm, groups(clip_norm=1.0))}, NOTHING),
        ],
        "a factor that no loss has": each(
            {
                f"{name} of {kind}, {value}": number(kind, name, value)
                for kind, name in (
                    ("grad_output", "loss"),
                    ("scalar", "loss.factor"),
                    ("scalar", "main_grad.factor"),
                )
                for value in (-1.0, float("nan"), float("inf"))
            },
            NOTHING,
        ),
    }


def said() -> dict[str, list[Variant]]:
    return {
        "a step without an update": each(
            {"no update was recorded": both(no_optimizer, drop(kinds("param_after_step")))}, NOTHING
        ),
        "states that nothing judges": each(
            {"the optimizer states of 12 parameters are given": states}, NOTHING
        ),
        "a rate that begins at 0": unmoved(
            {"no parameter moved in step 0": groups(lr=0.0, updates=1)}
        ),
    }
