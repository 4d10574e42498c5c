"""A callback that traces a Trainer of transformers, without a line in the training loop."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch

from ttrace_torch.api import trace
from ttrace_torch.errors import TraceError
from ttrace_torch.tracer import Tracer
from ttrace_torch.trainer_samples import follow_samples, forget_samples, generates


def trainer_callback(trainer: Any, **arguments: Any) -> Any:
    """Returns a callback for `trainer.add_callback()` that traces its optimizer steps.

    trainer: the Trainer, or one derived from it.
    arguments: those of `trace`, without model and optimizer.

    The steps have Trainer's numbers, `state.global_step`. Recorded are also the loss as the model
    returns it, before Trainer scales it, and the gradients before they are clipped, with their
    norm. Of a trainer that computes its loss itself, as those of trl do, it is the loss that
    backward starts from, divided by the number of processes: what the micro-batch adds to the mean
    over all of them. Micro-batches of a trainer that generates its samples (GRPO, RLOO) have the
    numbers of these.
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
        self._microbatch = ExitStack()
        self._generates = generates(trainer)
        self._told = False  # whether the loss of this micro-batch is recorded
        self._hook: Any = None
        self.tracer: Tracer | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self._trainer
        self.tracer = trace(trainer.model_wrapped, trainer.optimizer, **self._arguments)
        if self.tracer.active and self._generates:
            follow_samples(trainer, self._enter_microbatch)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        tracer = self.tracer
        if tracer is None or not tracer.active:
            return
        self._leave()
        self._step = tracer.step(state.global_step)
        self._step.__enter__()
        self._told = False
        if not self._generates:
            self._hook = self._trainer.model.register_forward_hook(self._record_loss)
        self._follow_backward(self._trainer.accelerator, tracer)
        self._follow_clipping(self._trainer.accelerator, tracer)

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._microbatch.close()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()
        if self.tracer is not None:
            forget_samples(self._trainer)
            self.tracer.close()

    def _leave(self) -> None:
        """Ends the step that runs, if any."""
        if self._step is None:
            return
        self._microbatch.close()
        if self._hook is not None:
            self._hook.remove()
        for name in ("backward", "clip_grad_norm_"):
            vars(self._trainer.accelerator).pop(name, None)
        step, self._step = self._step, None
        step.__exit__(None, None, None)

    def _record_loss(self, module: Any, args: Any, output: Any) -> None:
        loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
        if self.tracer is not None and isinstance(loss, torch.Tensor) and loss.dim() == 0:
            self.tracer.loss(loss)
            self._told = True

    def _enter_microbatch(self, samples: list[int]) -> None:
        tracer = self.tracer
        if self._step is None or tracer is None:
            return
        self._microbatch.close()
        if len(samples) == 1:
            self._microbatch.enter_context(tracer.microbatch(samples[0]))
            return
        why = (
            "micro-batches are not recorded, since which samples share one depends on the layout; "
            "per_device_train_batch_size=1 makes each sample one"
        )
        self._microbatch.enter_context(tracer.unrecorded(why))

    def _follow_backward(self, accelerator: Any, tracer: Tracer) -> None:
        """Records the loss that backward starts from, if the model has told none."""
        backward = accelerator.backward

        def followed(loss: Any, *rest: Any, **options: Any) -> Any:
            if not self._told and isinstance(loss, torch.Tensor) and loss.dim() == 0:
                tracer.loss(loss.detach() / accelerator.num_processes)
            self._told = False
            return backward(loss, *rest, **options)

        accelerator.backward = followed

    def _follow_clipping(self, accelerator: Any, tracer: Tracer) -> None:
        """Records gradients before accelerate clips them, and their norm."""
        clip = accelerator.clip_grad_norm_

        def followed(parameters: Any, max_norm: Any, *rest: Any, **options: Any) -> Any:
            self._microbatch.close()
            tracer.main_grads()
            norm = clip(parameters, max_norm, *rest, **options)
            if norm is not None:
                tracer.grad_norm(norm, clip_norm=float(max_norm))
            return norm

        accelerator.clip_grad_norm_ = followed
