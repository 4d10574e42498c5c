"""The state of one traced step, and the recording of values that the user gives."""

from __future__ import annotations

from typing import Any, Union

import torch

from ttrace_torch.base.microbatch import Batch, MicroBatches, number_of
from ttrace_torch.capture.calls import CallCounter
from ttrace_torch.capture.dataflow import DataFlow
from ttrace_torch.capture.gradients import GradientHooks
from ttrace_torch.capture.recorder import Recorder
from ttrace_torch.capture.records import Key
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements import Placements

Number = Union[torch.Tensor, float, int, bool]


class Step:
    """The state of one traced step."""

    def __init__(self, number: int, recorder: Recorder, flow: DataFlow | None) -> None:
        self.number = number
        self.flow = flow
        self.recorder = recorder
        self.calls = CallCounter()
        self.gradients = GradientHooks(number, recorder, self.calls)
        self.main_grads_done = False
        self.updated = False
        self.params_after_done = False
        # Whether the optimizer has evaluated its closure more than once.
        self.evaluated_again = False
        self.in_microbatch = False
        self.clip_norm: float | None = None
        self.optimizer: list[dict[str, Any]] = []
        # Why the step is to be dropped when it ends; None if it is not.
        self.spoiled: str | None = None


def record_value(
    step: Step,
    kind: str,
    name: str,
    value: Number,
    placements: Placements | None,
    batch: Batch | None = None,
) -> None:
    """Records `value` in `step`, a Python float as float64. The same name again is a further call.

    batch: the micro-batch of the value, or several whose mean it is. Integers of several
        micro-batches have no mean, and are left out.
    """
    if step.calls.paused:
        return
    if not isinstance(value, torch.Tensor):
        exact = torch.float64 if isinstance(value, float) else None
        value = torch.tensor(value, dtype=exact)
    key = step.recorder.next_call(Key(step.number, number_of(batch), kind, name))
    together = None
    if isinstance(batch, MicroBatches) and kind != "index":
        if not value.is_floating_point():
            why = TraceError(
                f"{value.dtype} has no mean over the micro-batches {batch}; record a "
                "floating-point number, or record it outside of microbatch([...])"
            )
            step.recorder.leave_out(key, why)
            return
        together = batch.entry("mean", value.dim(), str(key))
    step.recorder.add(key, value, placements or {}, microbatches=together)
