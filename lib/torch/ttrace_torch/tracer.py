"""The tracer, which a training loop talks to. It decides what is recorded when."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from ttrace_torch.base.microbatch import batch_of, global_number
from ttrace_torch.base.names import ModelNames, check_name
from ttrace_torch.base.process import call_at_exit
from ttrace_torch.capture.dataflow import DataFlow
from ttrace_torch.capture.hooks import ForwardHooks
from ttrace_torch.capture.recorder import Recorder
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.selection import Selection, Steps, WritingRanks
from ttrace_torch.capture.step import Number, Step, record_value
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.framework import Framework, Watch
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.placements import Placements
from ttrace_torch.optimizer.state import record_states
from ttrace_torch.perturb.perturber import Perturber
from ttrace_torch.rewrite.rewriter import Rewriter
from ttrace_torch.specification.reference_run import NoReference, ReferenceRun
from ttrace_torch.write.output import Output


@dataclass(frozen=True)
class TracedJob:
    """What a tracer works with: `ttrace_torch.trace` makes it from a model and a `TraceConfig`.

    names: canonical names of the model's modules and parameters.
    assignment: the layouts of its modules and parameters.
    selection: the kinds, modules and parameters to record on this rank.
    output: this rank's file.
    optimizer: the optimizer whose steps are followed; None without one.
    perturber, rewriter: the changes of a noise run and of a rewritten run; None without one.
    reference: records the specification of the first traced step.
    """

    names: ModelNames
    assignment: Assignment
    selection: Selection
    output: Output
    optimizer: Any = None
    framework: Framework = field(default_factory=Framework)
    perturber: Perturber | None = None
    rewriter: Rewriter | None = None
    reference: ReferenceRun = field(default_factory=NoReference)
    steps: Steps = field(default_factory=Steps)
    writing: WritingRanks = field(default_factory=lambda: WritingRanks(None))


class Tracer:
    """Records training steps. Made by `ttrace_torch.trace`."""

    def __init__(self, job: TracedJob) -> None:
        self._job = job
        self._output = job.output
        self._step: Step | None = None
        self._finished: set[int] = set()
        self._facts: dict[str, Any] = {}
        self._closed = False
        self._next_step = 0
        self._watch: Watch | None = None
        if job.optimizer is not None:
            self._watch = job.framework.watch_optimizer(job.optimizer, self)
        self._cancel_at_exit = call_at_exit(self._exit)

    def step(self, number: int | None = None) -> AbstractContextManager[Tracer]:
        """Returns a context that traces training step `number`, counted from 0.

        Parameters are recorded on entry, and on exit if the optimizer made its step. A body that
        throws drops the step. A step that is not selected runs unchanged.

        number: by default one more than the number of the last step.
        """
        number = self._next_step if number is None else number
        self._next_step = number + 1
        if self.failed is not None or not self._job.steps.takes(number):
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
        job = self._job
        job.names.check_unchanged()
        scales = job.framework.scales()
        step = self._begin(number, scales)
        hooks = ForwardHooks(step, job.perturber, job.rewriter)
        if job.rewriter is not None:
            job.rewriter.begin(number, scales)
        self._step = step
        try:
            self._record_parameters(step, "param")
            self._record_optimizer_state(step)
            step.gradients.follow_parameters(job.names, job.selection.parameters, job.assignment)
            hooks.attach(job.names.modules, job.selection.modules, job.assignment)
            with job.framework.watch_step(self) as watch:
                step.gradients.backward_batch = watch.backward_batch
                step.gradients.repeats_outputs = watch.repeats_outputs
                with job.reference.recording(hooks.running):
                    yield self
            if step.updated and not step.params_after_done:
                self._record_parameters(step, "param_after_step")
            self._finish(step)
            self._finished.add(number)
        finally:
            if number not in self._finished:
                self._output.drop()
                job.reference.drop()
            hooks.remove()
            step.gradients.remove()
            if step.flow is not None:
                step.flow.release()
            self._step = None

    def _begin(self, number: int, scales: dict[str, float]) -> Step:
        """Returns the state of a step that begins."""
        job, output = self._job, self._output
        recorder = Recorder(
            output.meshes,
            output.rank,
            job.selection.kinds,
            output.skipped,
            output.put,
            scales,
            job.writing,
            job.reference.observer(),
        )
        # The first finished step records the data flow of all steps.
        follows_flow = "modules" not in self._facts and job.writing.takes(output.rank)
        step = Step(number, recorder, DataFlow() if follows_flow else None)
        step.calls.microbatch = (job.framework.data_rank() or (0, 1))[0]
        return step

    def _finish(self, step: Step) -> None:
        """Hands the records of a step to the output. Throws TraceError if a change of the run,
        perturbation or plan, met no tensor."""
        perturber, rewriter = self._job.perturber, self._job.rewriter
        if perturber is not None and perturber.missed:
            raise TraceError(
                f"step {step.number}: nothing was perturbed, no module returned a floating-point "
                "tensor; run the model inside the step"
            )
        if rewriter is not None:
            rewriter.end()
        if step.flow is not None:
            self._facts["modules"] = step.flow.entries(self._job.names)
        if perturber is not None:
            self._facts["noise"] = perturber.facts()
        if rewriter is not None:
            self._facts["plan"] = rewriter.facts()
        if step.clip_norm is not None:
            step.optimizer = [{**e, "clip_norm": step.clip_norm} for e in step.optimizer]
        self._job.reference.finish(step.clip_norm)
        records, precision = step.recorder.records.values(), step.recorder.precision
        self._output.write(step.number, records, precision, step.optimizer, self._facts)

    @contextmanager
    def microbatch(
        self, number: int | Sequence[int], dim: int = 0, of: int | None = None
    ) -> Iterator[Tracer]:
        """Assigns what runs inside to the global micro-batch `number`.

        Outside of any such context, the micro-batch is the number of this data-parallel rank, 0 in
        a single process. The same micro-batch may be entered again, for instance for a backward
        that runs apart from its forward.

        number: a list for a run of several micro-batches at once, such as the reference's one big
            batch. They are concatenated along dimension `dim` of the activations, unless a layout
            gives `input_batch` or `output_batch`. Gradients of parameters are then their sum; the
            loss and other floating-point numbers are their mean.
        of: the number of micro-batches of each data-parallel rank. `number` is then the rank's own
            number, from 0 on, and the global number is data-parallel rank * `of` + `number`.
        """
        batch = batch_of(number, dim)
        if of is not None:
            ranks = len(self._output.meshes.ranks)
            batch = global_number(batch, of, self._job.framework.data_rank(), ranks)
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
        """Records this rank's loss of the current micro-batch, and returns it.

        placements: axis -> placement of a loss that is not replicated, e.g. {"dp":
            Partial("mean")}.
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
        """Records the global gradient norm before clipping.

        clip_norm: the limit that the gradients are clipped to, for the manifest's optimizer
            entries.
        """
        step = self._step
        if step is None:
            return
        record_value(step, "grad_norm", "grad_norm", norm, placements)
        # An infinite limit computes the norm without clipping.
        if clip_norm is not None and math.isfinite(clip_norm):
            step.clip_norm = float(clip_norm)

    def scalar(self, name: str, value: Number, placements: Placements | None = None) -> None:
        """Records another number; inside `microbatch()` it belongs to the micro-batch."""
        step = self._step
        if step is not None:
            batch = step.calls.microbatch if step.in_microbatch else None
            record_value(step, "scalar", check_name(name, "scalar"), value, placements, batch)

    def index(self, name: str, rows: torch.Tensor, placements: Placements | None = None) -> None:
        """Records which rows of the whole tensor this rank holds, for tensors placed by `Rows`.

        rows: 1-D integer tensor, one row number for each row held, negative for padding. Record it
            in the same micro-batch and as often as the tensors that name it.
        placements: how `rows` itself is sharded over the axes placed by `Rows`.
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
        """Suspends recording inside: for an evaluation, or a pipeline's shape inference."""
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
        """Records the gradients that the optimizer will consume: `main_grad` of the parameters
        that have it, else `grad`. Without this call they are recorded when the optimizer's step
        begins."""
        step = self._step
        if step is None:
            return
        if step.main_grads_done:
            raise TraceError(f"step {step.number}: main gradients are recorded already")
        step.main_grads_done = True
        self._record_parameters(step, "main_grad")
        self._job.reference.end_recording()

    def params_after_step(self) -> None:
        """Records the updated parameters. Without this call they are recorded at the end of the
        step if the optimizer given to `trace` made its step."""
        step = self._step
        if step is not None:
            step.params_after_done = True
            self._record_parameters(step, "param_after_step")

    @property
    def skipped(self) -> list[str]:
        """The tensors without a dtype in the trace format, as "kind name dtype"."""
        return sorted(self._output.skipped)

    @property
    def active(self) -> bool:
        """Whether this tracer records: an output path was given."""
        return True

    @property
    def failed(self) -> str | None:
        """The error that ended the recording, such as a full disk; None without one."""
        return self._output.failure.message

    def close(self) -> None:
        """Writes the files and removes all hooks. A second call does nothing.

        The rank that finds the files of all ranks writes manifest.json. I/O errors do not throw,
        see `failed`.
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
            # An empty trace would look like an intended one.
            self._closed = True
            self._detach()
            self._output.discard()

    def _exit(self) -> None:
        """Closes the tracer when the interpreter ends and nobody has: finished steps are kept."""
        if self._step is not None:
            self._step = None
            self._output.drop()
        self.__exit__(None if self._finished else SystemExit, None, None)

    def _detach(self) -> None:
        self._cancel_at_exit()
        if self._watch is not None:
            self._watch.remove()

    def begin_microbatch(self, number: int) -> bool:
        """Assigns what runs from now on to micro-batch `number`; called by a framework's adapter.

        Returns False, and changes nothing, outside of a step and inside the user's `microbatch()`.
        """
        step = self._step
        if step is None or step.in_microbatch:
            return False
        step.calls.microbatch = number
        return True

    def before_update(self) -> None:
        """Records what an optimizer step begins with; called by the optimizer's watch."""
        step = self._step
        if step is None:
            return
        if step.updated:
            raise TraceError(f"step {step.number}: the optimizer makes a second step in it")
        if not step.main_grads_done:
            self.main_grads()
        if self._watch is not None:
            step.optimizer = self._watch.entries(step.number, self._job.names)

    def after_update(self) -> None:
        """Notes that the optimizer has made its step; called by the optimizer's watch."""
        if self._step is not None:
            self._step.updated = True

    def _record_parameters(self, step: Step, kind: str) -> None:
        job = self._job
        for name, parameter in job.names.parameters.items():
            if name not in job.selection.parameters:
                continue
            tensor = job.framework.held(name, parameter, kind)
            if tensor is not None:
                placements = job.assignment.parameters[name].of(kind)
                step.recorder.add(Key(step.number, None, kind, name), tensor, placements)
            if kind == "param":
                step.recorder.precision.note(parameter)

    def _record_optimizer_state(self, step: Step) -> None:
        names, selection = self._job.names, self._job.selection
        if self._watch is not None and step.recorder.wants("optimizer_state"):
            record_states(
                self._watch.states(names),
                {name: names.parameters[name] for name in selection.parameters},
                self._job.assignment,
                step,
                self._output.meshes,
                self._output.rank,
            )
