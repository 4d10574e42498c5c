"""Records a number that the user hands over: a loss, a norm, a scalar, the rows of an index."""

from __future__ import annotations

from typing import Union

import torch

from ttrace_torch.batches import Batch, Together, number_of
from ttrace_torch.errors import TraceError
from ttrace_torch.placement import Placements
from ttrace_torch.record import Key
from ttrace_torch.step import Step

Number = Union[torch.Tensor, float, int, bool]


def record_value(
    step: Step,
    kind: str,
    name: str,
    value: Number,
    placements: Placements | None,
    batch: Batch | None = None,
) -> None:
    """Records `value` in `step`; a Python float as float64. A second one is a second call.

    batch: the micro-batch it belongs to, or several of which it is the mean. Throws TraceError for
        integers of several, which have no mean.
    """
    if step.calls.paused:
        return
    if not isinstance(value, torch.Tensor):
        exact = torch.float64 if isinstance(value, float) else None
        value = torch.tensor(value, dtype=exact)
    key = step.recorder.next_call(Key(step.number, number_of(batch), kind, name))
    together = None
    if isinstance(batch, Together) and kind != "index":
        if not value.is_floating_point():
            raise TraceError(
                f"{key}: {value.dtype} has no mean over the micro-batches {batch}; record a "
                "floating-point number, or record it outside of microbatch([...])"
            )
        together = batch.entry("mean", value.dim(), str(key))
    step.recorder.add(key, value, placements or {}, microbatches=together)
