"""A callback that traces a Trainer of transformers, without a line in the training loop."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

import torch

from ttrace_torch.api import trace
from ttrace_torch.errors import TraceError
from ttrace_torch.tracer import Tracer


def trainer_callback(trainer: Any, **arguments: Any) -> Any:
    """Returns a callback for `trainer.add_callback()` that traces its optimizer steps.

    trainer: the Trainer, or one derived from it.
    arguments: those of `trace`, without model and optimizer.

    The steps have Trainer's numbers, `state.global_step`. Recorded are also the loss as the model
    returns it, before Trainer scales it, and the gradients before they are clipped, with their
    norm.
    Throws TraceError if transformers is not imported.
    """
    base = getattr(sys.modules.get("transformers"), "TrainerCallback", None)
    if base is None:
        raise TraceError("trainer_callback: give a Trainer of transformers")

    class TracingCallback(_Tracing, base):  # type: ignore[misc, valid-type]
        """`_Tracing` as a callback of transformers."""

    return TracingCallback(trainer, arguments)


class _Tracing:
    """What happens at a Trainer's events."""

    def __init__(self, trainer: Any, arguments: dict[str, Any]) -> None:
        self._trainer = trainer
        self._arguments = arguments
        self._step: AbstractContextManager[Any] | None = None
        self._hook: Any = None
        self.tracer: Tracer | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self._trainer
        self.tracer = trace(trainer.model_wrapped, trainer.optimizer, **self._arguments)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        tracer = self.tracer
        if tracer is None or not tracer.active:
            return
        self._leave()
        self._step = tracer.step(state.global_step)
        self._step.__enter__()
        self._hook = self._trainer.model.register_forward_hook(self._record_loss)
        self._follow_clipping(self._trainer.accelerator, tracer)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()
        if self.tracer is not None:
            self.tracer.close()

    def _leave(self) -> None:
        """Ends the step that runs, if any."""
        if self._step is None:
            return
        self._hook.remove()
        vars(self._trainer.accelerator).pop("clip_grad_norm_", None)
        step, self._step = self._step, None
        step.__exit__(None, None, None)

    def _record_loss(self, module: Any, args: Any, output: Any) -> None:
        loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
        if self.tracer is not None and isinstance(loss, torch.Tensor) and loss.dim() == 0:
            self.tracer.loss(loss)

    @staticmethod
    def _follow_clipping(accelerator: Any, tracer: Tracer) -> None:
        """Records gradients before accelerate clips them, and their norm."""
        clip = accelerator.clip_grad_norm_

        def followed(parameters: Any, max_norm: Any, *rest: Any, **options: Any) -> Any:
            tracer.main_grads()
            norm = clip(parameters, max_norm, *rest, **options)
            if norm is not None:
                tracer.grad_norm(norm, clip_norm=float(max_norm))
            return norm

        accelerator.clip_grad_norm_ = followed
