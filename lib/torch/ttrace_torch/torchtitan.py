"""A callback that traces a Trainer of torchtitan, without a line in its training loop.

torchtitan has no hooks. The names of its Trainer that are used here stand in private_names.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ttrace_torch.api import trace
from ttrace_torch.base.process import say_for_job
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements import Partial
from ttrace_torch.tracer import Tracer

# What `loss_fn` takes besides the model's output, the second a number of the step.
_DATA = ("labels", "global_valid_tokens")
# The kinds whose layouts follow from the DTensors of parameters alone.
_TOLD = ("param", "main_grad", "grad_norm", "optimizer_state", "param_after_step", "loss", "scalar")


def model_of(trainer: Any) -> Any:
    """What `trace` and `consistent_init` take of a Trainer: its model, or its pipeline schedule."""
    schedule = getattr(trainer, "pp_schedule", None)
    parts = getattr(trainer, "model_parts", None)
    if schedule is None and not parts:
        raise TraceError(f"trainer: {type(trainer).__name__} has no model yet: build it first")
    return schedule if not parts or schedule is not None else parts[0]


def _cuts_untold(trainer: Any) -> bool:
    """Whether the Trainer cuts activations without a DTensor that says how."""
    config = getattr(trainer, "config", None)
    backend = getattr(getattr(config, "parallelism", None), "spmd_backend", "")
    axes = ("tp_enabled", "cp_enabled", "ep_enabled")
    dims = getattr(trainer, "parallel_dims", None)
    cut = dims is None or any(getattr(dims, axis, False) for axis in axes)
    return backend == "spmd_types" and cut


def _missing(trainer: Any, name: str, what: str) -> None:
    say_for_job(f"torchtitan: this release's {type(trainer).__name__} has no {name}, so {what}")


class Callback:
    """Traces the optimizer steps of `trainer.train()`, until `trainer.close()`.

    trainer: a Trainer of torchtitan, built and not yet training.
    arguments: those of `ttrace_torch.trace`, without model and optimizer.

    Steps are counted from 0: they are one less than `trainer.step`. Recorded are also the loss of a
    micro-batch as `loss_fn` returns it, the sum over its tokens divided by the number of all tokens
    of the step, this number, the labels, and the gradients before they are clipped, with their
    norm. Where the backend `spmd_types` cuts activations, nothing tells how: then they and raw
    gradients are left out. What a release of torchtitan has under no name known here is left out,
    too, in one line on stderr, and the job trains on.
    """

    def __init__(self, trainer: Any, **arguments: Any) -> None:
        optimizers = list(getattr(trainer, "optimizers", ()))
        if not optimizers:
            _missing(trainer, "optimizers", "no optimizer is recorded")
        optimizer = optimizers[0] if len(optimizers) == 1 else optimizers or None
        if "kinds" not in arguments and _cuts_untold(trainer):
            arguments["kinds"] = _TOLD
            say_for_job(
                "activations and raw gradients are not recorded, since torchtitan's backend "
                "spmd_types does not tell how they are cut; partial_dtensor does"
            )
        self.tracer: Tracer = trace(model_of(trainer), optimizer, **arguments)
        if self.tracer.active:
            _follow(trainer, self.tracer)


def _follow(trainer: Any, tracer: Tracer) -> None:
    """Tells `tracer` of the steps of `trainer`, and of its end."""
    train_step, close = getattr(trainer, "train_step", None), getattr(trainer, "close", None)
    if train_step is None or not hasattr(trainer, "step"):
        _missing(
            trainer,
            "step" if train_step else "train_step",
            "nothing is recorded; put `with callback.tracer.step(n):` around a step",
        )
        return

    def traced(*given: Any, **named: Any) -> Any:
        with tracer.step(trainer.step - 1), _losses_told(trainer, tracer), _clipping_told(tracer):
            return train_step(*given, **named)

    trainer.train_step = traced
    if close is None:
        _missing(trainer, "close", "`callback.tracer.close()` ends the trace")
        return

    def closed() -> None:
        tracer.close()
        close()

    trainer.close = closed


@contextmanager
def _losses_told(trainer: Any, tracer: Tracer) -> Iterator[None]:
    """Inside, `tracer` records the losses. A release without the name trains on without them."""
    schedule = getattr(trainer, "pp_schedule", None)
    holder, name = (trainer, "loss_fn") if schedule is None else (schedule, "_loss_fn")
    loss_fn = getattr(holder, name, None)
    if loss_fn is None:
        _missing(trainer, name, "no losses are recorded")
        yield
        return
    dims = getattr(trainer, "parallel_dims", None)
    # A load balancer cuts labels along the sequence in an order that nothing tells.
    known = _DATA[1:] if dims is None or getattr(dims, "cp_enabled", False) else _DATA

    def told(*given: Any, **named: Any) -> Any:
        data = {**dict(zip(_DATA, given[1:])), **named}
        tracer.loss_data(**{name: data[name] for name in known if name in data})
        returned = loss_fn(*given, **named)
        loss = returned[0] if isinstance(returned, tuple) else returned
        if isinstance(loss, torch.Tensor):
            tracer.loss(loss, {"cp": Partial("sum")})
        return returned

    setattr(holder, name, told)
    try:
        yield
    finally:
        setattr(holder, name, loss_fn)


@contextmanager
def _clipping_told(tracer: Tracer) -> Iterator[None]:
    """Inside, `tracer` records gradients before torchtitan clips them, and their norm. A release
    without the function trains on, and only clipped gradients are recorded."""
    utils = sys.modules.get("torchtitan.distributed.utils")
    clip = getattr(utils, "clip_grad_norm_", None)
    if clip is None:
        say_for_job(
            "torchtitan: no distributed.utils.clip_grad_norm_, so gradients are recorded clipped"
        )
        yield
        return

    def told(parameters: Any, max_norm: Any, *given: Any, **named: Any) -> Any:
        tracer.main_grads()
        norm = clip(parameters, max_norm, *given, **named)
        tracer.grad_norm(norm, clip_norm=float(max_norm))
        return norm

    vars(utils)["clip_grad_norm_"] = told
    try:
        yield
    finally:
        vars(utils)["clip_grad_norm_"] = clip
