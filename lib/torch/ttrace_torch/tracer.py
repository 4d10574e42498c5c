"""The tracer: what a training loop talks to. Decides what is recorded when; others do the work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from ttrace_torch.base.microbatch import batch_of, global_number
from ttrace_torch.base.names import ModelNames, check_name
from ttrace_torch.base.process import call_at_exit
from ttrace_torch.capture.dataflow import DataFlow
from ttrace_torch.capture.hooks import ForwardHooks
from ttrace_torch.capture.recorder import Key, Recorder
from ttrace_torch.capture.selection import Selection, Steps, WritingRanks
from ttrace_torch.capture.step import Number, Step, record_value
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.framework import Framework, Watch
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.placement import Placements
from ttrace_torch.optimizer.state import record_states
from ttrace_torch.perturb.perturber import Disturber
from ttrace_torch.rewrite.rewriter import Rewriter
from ttrace_torch.write.output import Output


class Tracer:
    """Records the steps it is told to. Made by `ttrace_torch.trace`."""

    def __init__(
        self,
        names: ModelNames,
        assignment: Assignment,
        selection: Selection,
        output: Output,
        optimizer: Any = None,
        disturber: Disturber | None = None,
        framework: Framework | None = None,
        rewriter: Rewriter | None = None,
        steps: Steps | None = None,
        writing: WritingRanks | None = None,
    ) -> None:
        self._names = names
        self._assignment = assignment
        self._selection = selection
        self._output = output
        self._disturber = disturber
        self._rewriter = rewriter
        self._step: Step | None = None
        self._finished: set[int] = set()
        self._facts: dict[str, Any] = {}
        self._closed = False
        self._steps = steps or Steps()
        self._writing = writing or WritingRanks(None)
        self._next_step = 0
        self._framework = framework or Framework()
        self._watch: Watch | None = None
        if optimizer is not None:
            self._watch = self._framework.watch_optimizer(optimizer, self)
        self._stay_at_exit = call_at_exit(self._exit)

    def step(self, number: int | None = None) -> AbstractContextManager[Tracer]:
        """Traces the training step `number`, counted from 0; by default the one after the last.

        Parameters are recorded on entering, and on leaving where the optimizer made its step. If
        the body throws, the step is dropped. A step that is not selected runs as it is.
        """
        number = self._next_step if number is None else number
        self._next_step = number + 1
        if self.failed is not None or not self._steps.takes(number):
            return nullcontext(self)
        return self._traced(number)

    @contextmanager
    def _traced(self, number: int) -> Iterator[Tracer]:
        if self._closed:
            raise TraceError(f"step {number}: the tracer is closed")
        if self._step is not None:
            raise TraceError(f"step {number} begins inside step {self._step.number}")
        if number in self._finished or number < 0:
            raise TraceError(f"step {number} has been traced already, or is negative")
        self._names.check_unchanged()
        output = self._output
        scales = self._framework.scales()
        recorder = Recorder(
            output.meshes,
            output.rank,
            self._selection.kinds,
            output.skipped,
            output.put,
            scales,
            self._writing,
        )
        step = Step(number, recorder, DataFlow() if self._follows_flow else None)
        step.calls.microbatch = (self._framework.data_rank() or (0, 1))[0]
        hooks = ForwardHooks(
            number,
            recorder,
            step.calls,
            step.gradients,
            step.flow,
            self._disturber,
            self._rewriter,
        )
        if self._rewriter is not None:
            self._rewriter.begin(number, scales)
        self._step = step
        try:
            self._record_parameters(step, "param")
            self._record_optimizer_state(step)
            step.gradients.follow_parameters(
                self._names, self._selection.parameters, self._assignment
            )
            hooks.attach(self._names.modules, self._selection.modules, self._assignment)
            with self._framework.watch_step(self) as watch:
                step.gradients.backward_batch = watch.backward_batch
                step.gradients.repeats_outputs = watch.repeats_outputs
                yield self
            if step.updated and not step.params_after_done:
                self._record_parameters(step, "param_after_step")
            if self._disturber is not None and self._disturber.missed:
                raise TraceError(
                    f"step {number}: nothing was disturbed, no module returned a floating-point "
                    "tensor; run the model inside the step"
                )
            if self._rewriter is not None:
                self._rewriter.end()
            if step.flow is not None:
                self._facts["modules"] = step.flow.entries(self._names)
            if self._disturber is not None:
                self._facts["noise"] = self._disturber.facts()
            if self._rewriter is not None:
                self._facts["plan"] = self._rewriter.facts()
            if step.clip_norm is not None:
                step.optimizer = [{**e, "clip_norm": step.clip_norm} for e in step.optimizer]
            output.write(
                number, recorder.records.values(), recorder.precision, step.optimizer, self._facts
            )
            self._finished.add(number)
        finally:
            if number not in self._finished:
                output.drop()
            hooks.remove()
            step.gradients.remove()
            if step.flow is not None:
                step.flow.release()
            self._step = None

    @contextmanager
    def microbatch(
        self, number: int | Sequence[int], dim: int = 0, of: int | None = None
    ) -> Iterator[Tracer]:
        """What runs inside belongs to the global micro-batch `number`.

        Outside of any, all belongs to that which has the number of this data-parallel rank, 0 in
        one process.

        May be entered again, for instance for a backward that runs apart from its forward.

        number: a list for a run of several micro-batches at once, such as the reference's one big
            batch. They lie one after the other along dimension `dim` of the activations, where no
            layout's `input_batch` or `output_batch` says otherwise; gradients of parameters are
            their sum, the loss and other floating-point numbers their mean.
        of: how many micro-batches each data-parallel rank has; `number` is then the rank's own,
            from 0 on, and the global one is `of` times the data-parallel rank more.
        """
        batch = batch_of(number, dim)
        if of is not None:
            ranks = len(self._output.meshes.ranks)
            batch = global_number(batch, of, self._framework.data_rank(), ranks)
        step = self._step
        if step is None:
            yield self
            return
        outer = step.calls.microbatch, step.in_microbatch
        step.calls.microbatch, step.in_microbatch = batch, True
        try:
            yield self
        finally:
            step.calls.microbatch, step.in_microbatch = outer

    def loss(self, loss: torch.Tensor, placements: Placements | None = None) -> torch.Tensor:
        """Records this rank's loss of the micro-batch, and returns it.

        placements: axis -> placement, for a loss that is no replica, e.g. {"dp": Partial("mean")}.
        """
        step = self._step
        if step is not None:
            record_value(step, "loss", "loss", loss, placements, step.calls.microbatch)
            if step.flow is not None and not step.calls.paused:
                step.flow.loss("loss", loss)
        return loss

    def grad_norm(
        self,
        norm: Number,
        clip_norm: float | None = None,
        placements: Placements | None = None,
    ) -> None:
        """Records the global gradient norm, as it was before clipping.

        clip_norm: what it is clipped to, for the manifest's optimizer entries.
        """
        step = self._step
        if step is None:
            return
        record_value(step, "grad_norm", "grad_norm", norm, placements)
        # An infinite limit is a way of asking for the norm alone.
        if clip_norm is not None and math.isfinite(clip_norm):
            step.clip_norm = float(clip_norm)

    def scalar(self, name: str, value: Number, placements: Placements | None = None) -> None:
        """Records any other number; inside `microbatch()` it belongs to the micro-batch."""
        step = self._step
        if step is not None:
            batch = step.calls.microbatch if step.in_microbatch else None
            record_value(step, "scalar", check_name(name, "scalar"), value, placements, batch)

    def index(self, name: str, rows: torch.Tensor, placements: Placements | None = None) -> None:
        """Records which rows of the whole tensor this rank holds, for tensors cut by `Rows`.

        rows: one integer for each row held, negative for a row of padding; in the same micro-batch
            and as often as the tensors that name it.
        placements: how `rows` itself is cut, over the axes that say `Rows`.
        """
        step = self._step
        if step is None:
            return
        if rows.dim() != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
            raise TraceError(
                f"index {name}: {rows.dtype} of shape {list(rows.shape)}; give the numbers of the "
                "rows as integers in one dimension"
            )
        batch = step.calls.microbatch
        record_value(step, "index", check_name(name, "index"), rows, placements, batch)

    @contextmanager
    def unrecorded(self) -> Iterator[Tracer]:
        """What runs inside is not recorded: an evaluation, or a pipeline's rehearsal."""
        step = self._step
        if step is None:
            yield self
            return
        outer, step.calls.paused = step.calls.paused, True
        try:
            yield self
        finally:
            step.calls.paused = outer

    def main_grads(self) -> None:
        """Records now what the optimizer will consume: `main_grad` of the parameters that have
        one, else `grad`. Otherwise this happens when the optimizer's step begins."""
        step = self._step
        if step is None:
            return
        if step.main_grads_done:
            raise TraceError(f"step {step.number}: main gradients are recorded already")
        step.main_grads_done = True
        self._record_parameters(step, "main_grad")

    def params_after_step(self) -> None:
        """Records the updated parameters now. Otherwise this happens at the end of the step, if
        the optimizer given to `trace` made its step."""
        step = self._step
        if step is not None:
            step.params_after_done = True
            self._record_parameters(step, "param_after_step")

    @property
    def skipped(self) -> list[str]:
        """What was not recorded because its dtype is not in the format, as "kind name dtype"."""
        return sorted(self._output.skipped)

    @property
    def active(self) -> bool:
        """Whether this tracer records at all: it was told where to."""
        return True

    @property
    def failed(self) -> str | None:
        """What ended the recording: a full disk, a folder without permission. None if nothing."""
        return self._output.failure.message

    def close(self) -> None:
        """Writes the files and takes all hooks off. Does nothing the second time.

        The rank that finds all ranks' files in place writes manifest.json. Does not throw for what
        the disk refuses, see `failed`.
        """
        if self._closed:
            return
        if self._step is not None:
            raise TraceError(f"close() inside step {self._step.number}")
        self._closed = True
        self._detach()
        self._output.finish()

    def __enter__(self) -> Tracer:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None or self._finished:
            self.close()
        elif not self._closed:
            # An empty trace would look like one that was meant.
            self._closed = True
            self._detach()
            self._output.discard()

    def _exit(self) -> None:
        """The interpreter ends, and nobody has closed the tracer: finished steps count."""
        if self._step is not None:
            self._step = None
            self._output.drop()
        self.__exit__(None if self._finished else SystemExit, None, None)

    @property
    def _follows_flow(self) -> bool:
        """Whether a step that begins is to tell the data flow, which one does for all."""
        return "modules" not in self._facts and self._writing.takes(self._output.rank)

    def _detach(self) -> None:
        self._stay_at_exit()
        if self._watch is not None:
            self._watch.remove()

    def begin_microbatch(self, number: int) -> bool:
        """What runs from now on belongs to the micro-batch `number`, unless `microbatch()` says
        otherwise; called by what watches the training loop. Whether it does."""
        step = self._step
        if step is None or step.in_microbatch:
            return False
        step.calls.microbatch = number
        return True

    def before_update(self) -> None:
        """The optimizer is about to make its step; called by what watches it."""
        step = self._step
        if step is None:
            return
        if step.updated:
            raise TraceError(f"step {step.number}: the optimizer makes a second step in it")
        if not step.main_grads_done:
            self.main_grads()
        if self._watch is not None:
            step.optimizer = self._watch.entries(step.number, self._names)

    def after_update(self) -> None:
        """The optimizer has made its step; called by what watches it."""
        if self._step is not None:
            self._step.updated = True

    def _record_parameters(self, step: Step, kind: str) -> None:
        for name, parameter in self._names.parameters.items():
            if name not in self._selection.parameters:
                continue
            tensor = self._framework.held(name, parameter, kind)
            if tensor is not None:
                placements = self._assignment.parameters[name].of(kind)
                step.recorder.add(Key(step.number, None, kind, name), tensor, placements)
            if kind == "param":
                step.recorder.precision.note(parameter)

    def _record_optimizer_state(self, step: Step) -> None:
        if self._watch is not None and step.recorder.wants("optimizer_state"):
            record_states(
                self._watch.states(self._names),
                {name: self._names.parameters[name] for name in self._selection.parameters},
                self._assignment,
                step,
                self._output.meshes,
                self._output.rank,
            )
