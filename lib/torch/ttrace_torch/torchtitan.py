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
    backend = getattr(getattr(trainer.config, "parallelism", None), "spmd_backend", "")
    axes = ("tp_enabled", "cp_enabled", "ep_enabled")
    return backend == "spmd_types" and any(getattr(trainer.parallel_dims, a, False) for a in axes)


class Callback:
    """Traces the optimizer steps of `trainer.train()`, until `trainer.close()`.

    trainer: a Trainer of torchtitan, built and not yet training.
    arguments: those of `ttrace_torch.trace`, without model and optimizer.

    Steps are counted from 0: they are one less than `trainer.step`. Recorded are also the loss of a
    micro-batch as `loss_fn` returns it, the sum over its tokens divided by the number of all tokens
    of the step, this number, the labels, and the gradients before they are clipped, with their
    norm. Where the backend `spmd_types` cuts activations, nothing tells how: then they and raw
    gradients are left out.
    """

    def __init__(self, trainer: Any, **arguments: Any) -> None:
        optimizers = list(trainer.optimizers)
        optimizer = optimizers[0] if len(optimizers) == 1 else optimizers
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
    train_step, close = trainer.train_step, trainer.close

    def traced(*given: Any, **named: Any) -> Any:
        with tracer.step(trainer.step - 1), _losses_told(trainer, tracer), _clipping_told(tracer):
            return train_step(*given, **named)

    def closed() -> None:
        tracer.close()
        close()

    trainer.train_step, trainer.close = traced, closed


@contextmanager
def _losses_told(trainer: Any, tracer: Tracer) -> Iterator[None]:
    """Inside, `tracer` records the losses. A release without the name trains on without them."""
    schedule = getattr(trainer, "pp_schedule", None)
    holder, name = (trainer, "loss_fn") if schedule is None else (schedule, "_loss_fn")
    loss_fn = getattr(holder, name, None)
    if loss_fn is None:
        yield
        return
    # A load balancer cuts labels along the sequence in an order that nothing tells.
    known = _DATA[1:] if getattr(trainer.parallel_dims, "cp_enabled", False) else _DATA

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
