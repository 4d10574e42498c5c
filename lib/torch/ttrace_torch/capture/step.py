"""The state of one traced step, and the recording of values that the user gives."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import torch

from ttrace_torch.base.microbatch import Batch, MicroBatches, number_of
from ttrace_torch.base.names import GRADIENT_FACTOR, LOSS, inner_factor_name
from ttrace_torch.capture.calls import CallCounter
from ttrace_torch.capture.clipping import GRAD_NORM, Clipping
from ttrace_torch.capture.dataflow import DataFlow
from ttrace_torch.capture.gradients import GradientHooks
from ttrace_torch.capture.loss_factors import inner_factor
from ttrace_torch.capture.loss_reads import LossReads, Place, place_of
from ttrace_torch.capture.recorder import Recorder
from ttrace_torch.capture.records import Key
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements import Placements, Replicate

Number = Union[torch.Tensor, float, int, bool]


class Step:
    """The state of one traced step.

    earlier: module name -> its runs in stages before this one, see `CallCounter`.
    """

    def __init__(
        self, number: int, recorder: Recorder, flow: DataFlow | None, earlier: Mapping[str, int]
    ) -> None:
        self.number = number
        self.flow = flow
        self.recorder = recorder
        self.calls = CallCounter(earlier)
        self.gradients = GradientHooks(number, recorder, self.calls)
        # The parameters whose gradients have been recorded, or have been found to be None.
        self.main_grads: set[str] = set()
        # The optimizers that have made their step, by their watches; None is the only one.
        self.updated: list[Any] = []
        self.params_after_done = False
        # Whether the optimizer has evaluated its closure more than once.
        self.evaluated_again = False
        # The gradients that were recorded before the optimizer asked for them: parameter -> the
        # tensor, and how often it had been changed in place.
        self.recorded_gradients: dict[str, tuple[torch.Tensor, int]] = {}
        self.gradients_changed = False  # after they were recorded, before the optimizer's step
        self.in_microbatch = False
        self.reads = LossReads()
        # Recorded numbers that no known loss reads so far.
        self.held: list[HeldNumber] = []
        self.clip_norm: float | None = None
        self.clipping: Clipping | None = None
        self.optimizer: list[dict[str, Any]] = []
        # The settings with which each optimizer's step has begun, by its watch.
        self.begun: dict[Any, list[dict[str, Any]]] = {}
        # Why the step is to be dropped when it ends; None if it is not.
        self.spoiled: str | None = None


# Larger than all numbers of micro-batches, provisional ones too.
_HELD = 1 << 31


@dataclass
class HeldNumber:
    """A recorded tensor whose micro-batch is not known yet.

    tensor: a weak reference.
    version: that of its elements when it was recorded.
    """

    name: str
    tensor: weakref.ref[torch.Tensor]
    version: int
    place: Place | None
    placements: Placements | None
    batches: list[Batch] = field(default_factory=list)


def record_number(step: Step, name: str, value: Number, placements: Placements | None) -> None:
    """Records a number outside of any `microbatch()`: with the micro-batches of the losses that
    read it, or with the step if none does."""
    if step.calls.paused:
        return
    tensor = _as_tensor(value)
    key = Key(step.number, _HELD + len(step.held), "scalar", name)
    held = HeldNumber(name, weakref.ref(tensor), version_of(tensor), place_of(tensor), placements)
    step.held.append(held)
    step.recorder.add(key, tensor, placements or {}, observed=False)
    for batch in step.reads.batches_of(held.place):
        _settle(step, held, batch)


def note_loss(step: Step, loss: torch.Tensor) -> None:
    """Gives the numbers that the loss of the current micro-batch reads to this micro-batch."""
    if step.calls.paused:
        return
    step.reads.note(loss, step.calls.microbatch)
    for held in step.held:
        for batch in step.reads.batches_of(held.place):
            _settle(step, held, batch)


def numbers_of_held(step: Step) -> dict[int, int | None]:
    """Provisional number -> number of the micro-batch that a held number turned out to belong to;
    None for the step."""
    found: dict[int, int | None] = {}
    for turn, held in enumerate(step.held):
        found[_HELD + turn] = number_of(held.batches[0]) if held.batches else None
    return found


def _settle(step: Step, held: HeldNumber, batch: Batch) -> None:
    """Notes that a held number is of that micro-batch, too."""
    if batch in held.batches:
        return
    held.batches.append(batch)
    tensor = held.tensor()
    if tensor is None or version_of(tensor) != held.version:
        return
    if len(held.batches) == 1 and not isinstance(batch, MicroBatches):
        # Tensors that are stored already get their number when the step ends.
        step.recorder.observe(Key(step.number, batch, "scalar", held.name), tensor)
    else:
        record_value(step, "scalar", held.name, tensor, held.placements, batch)


def record_value(
    step: Step,
    kind: str,
    name: str,
    value: Number,
    placements: Placements | None,
    batch: Batch | None = None,
) -> Key | None:
    """Records `value` in `step`, a Python float as float64. The same name again is a further call.

    Returns the key; None if nothing is recorded now.

    batch: the micro-batch of the value, or several whose mean it is. Integers of several
        micro-batches have no mean, and are left out.
    """
    if step.calls.paused:
        return None
    value = _as_tensor(value)
    key = step.recorder.next_call(Key(step.number, number_of(batch), kind, name))
    together = None
    if isinstance(batch, MicroBatches) and kind != "index":
        if not value.is_floating_point():
            why = TraceError(
                f"{value.dtype} has no mean over the micro-batches {batch}; record a "
                "floating-point number, or record it outside of microbatch([...])"
            )
            step.recorder.leave_out(key, why)
            return None
        together = batch.entry("mean", value.dim(), str(key))
    step.recorder.add(key, value, placements or {}, microbatches=together)
    return key


def record_loss(
    step: Step, loss: torch.Tensor, placements: Placements | None, gradient: str | None
) -> None:
    """Records the loss of the current micro-batch. Its backward records the factor that the script
    multiplies it by (a weight, 1 / micro-batches, a scale), as the `grad_output` of `gradient`,
    unless that is None. A factor from before it was recorded is recorded with it, as a scalar."""
    if gradient is not None:
        _record_inner_factor(step, loss, placements or {}, gradient)
    key = record_value(step, "loss", LOSS, loss, placements, step.calls.microbatch)
    if key is not None and gradient is not None:
        step.gradients.follow_loss(
            loss, key._replace(kind="grad_output", name=gradient), placements or {}
        )


def record_norm(
    step: Step,
    norm: Number,
    limit: float | None,
    placements: Placements | None,
    parameters: Iterable[torch.Tensor] | None,
) -> None:
    """Records the norm of the gradients of `parameters`, or of all, clipped to `limit`."""
    # An infinite limit computes the norm without clipping.
    limit = float(limit) if limit is not None and math.isfinite(limit) else None
    name = GRAD_NORM
    if step.clipping is not None:
        name = step.clipping.told(norm, limit, parameters)
    record_value(step, "grad_norm", name, norm, placements)
    if name == GRAD_NORM and limit is not None:
        step.clip_norm = limit


def _record_inner_factor(step: Step, loss: torch.Tensor, placements: Placements, name: str) -> None:
    """Records the factor that the terms of a loss were multiplied by before it was recorded.

    Does nothing for a loss of which ranks hold terms: each rank may divide by a number of its own.
    """
    batch = step.calls.microbatch
    whole = all(isinstance(one, Replicate) for one in placements.values())
    if step.calls.paused or isinstance(batch, MicroBatches) or not whole:
        return
    number = number_of(batch)
    call = step.recorder.next_call(Key(step.number, number, "loss", LOSS)).call
    key = Key(step.number, number, "scalar", inner_factor_name(name), call)
    with step.recorder.guarded(key):
        found = inner_factor(loss)
        if found is not None:
            step.recorder.observe(key, loss)
            step.recorder.add(key, found.number, {}, observed=False)


def version_of(tensor: torch.Tensor) -> int:
    """Changes when the elements are overwritten; 0 where torch does not count."""
    return 0 if tensor.is_inference() else int(tensor._version)


def record_gradient_factor(step: Step, factor: Number) -> None:
    """Records the factor by which a script has multiplied the gradients of the step, if it depends
    on data."""
    with step.recorder.guarded(Key(step.number, None, "scalar", GRADIENT_FACTOR)):
        number = torch.as_tensor(factor).detach().double().reshape(())
        record_value(step, "scalar", GRADIENT_FACTOR, number, None)


def _as_tensor(value: Number) -> torch.Tensor:
    """A Python float as float64."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
