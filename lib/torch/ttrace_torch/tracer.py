"""The tracer, which a training loop talks to. It decides what is recorded when."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from ttrace_torch.base.microbatch import Batch, batch_of, global_number
from ttrace_torch.base.names import loss_name
from ttrace_torch.base.problems import Problems
from ttrace_torch.base.process import call_at_exit
from ttrace_torch.capture.clipping import GRAD_NORM
from ttrace_torch.capture.loss_data import record_loss_data
from ttrace_torch.capture.recorder import describe
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.step import (
    Number,
    Step,
    note_loss,
    record_gradient_factor,
    record_loss,
    record_norm,
    record_number,
    record_value,
)
from ttrace_torch.checks import mistakes_at_close, mistakes_at_step, mistakes_at_trace
from ttrace_torch.copies import Source
from ttrace_torch.errors import TraceError
from ttrace_torch.job import TracedJob
from ttrace_torch.layout.placements import Placements
from ttrace_torch.traced_steps import TracedSteps


class Tracer:
    """Records training steps. Made by `ttrace_torch.trace`.

    No call throws, and no mistake in one ends the training: it is printed once, and the tensors
    that it spoils are left out. Noise runs and rewritten runs, whose results nobody trains with,
    are the exception: they throw TraceError if the run cannot be changed as asked.
    """

    def __init__(self, job: TracedJob) -> None:
        self._job = job
        self._output = job.output
        self._step: Step | None = None
        self._closed = False
        self._closing = False  # whether close() was called inside a step
        self._problems = Problems(job.output.rank)
        self._next_step = 0
        self._steps = TracedSteps(job, self._problems)
        self._updates = self._steps.updates
        if job.optimizer is not None:
            self._updates.watch = job.framework.watch_optimizer(job.optimizer, self)
        self._checked = False
        self._tell(mistakes_at_trace(job, self._updates.watch))
        self._cancel_at_exit = call_at_exit(self._exit)

    def step(self, number: int | None = None) -> AbstractContextManager[Tracer]:
        """Returns a context that traces training step `number`, counted from 0.

        Parameters are recorded on entry, and on exit if the optimizer made its step. A body that
        throws drops the step. A step that is not selected runs unchanged.

        number: by default one more than the number of the last step.
        """
        number = self._next_step if number is None else number
        self._next_step = number + 1
        if self.failed is not None or not self._steps.begins(number):
            return nullcontext(self)
        mistake = f"step {number} begins after close()" if self._closed else None
        mistake = mistake or self._steps.mistake_in(number, self._step)
        if mistake is not None:
            self._problems.say_once(f"{mistake}; it is not recorded")
            return nullcontext(self)
        return self._traced(number)

    @contextmanager
    def _traced(self, number: int) -> Iterator[Tracer]:
        if not self._checked:
            self._checked = True
            self._tell(mistakes_at_step(self._job))
        stack = ExitStack()
        step = self._step = self._steps.enter(number, stack, self)
        try:
            yield self
        except BaseException:
            self._left(step, stack, *sys.exc_info())
            raise
        self._left(step, stack, None, None, None)

    def _tell(self, mistakes: Iterator[str]) -> None:
        """Prints mistakes, on one rank of the run."""
        try:
            if self._output.rank == min(self._output.meshes.ranks):
                for mistake in mistakes:
                    self._problems.advise(mistake)
        except Exception as error:
            self._problems.say_once(describe(error))

    def _left(self, step: Step | None, stack: ExitStack, kind: Any, error: Any, where: Any) -> None:
        missed = None
        if step is not None:
            missed = self._steps.leave(step, stack, kind, error, where)
        self._step = None
        if self._closing or (kind is None and self._steps.over(self._next_step - 1)):
            self.close()
        if missed is not None:
            raise missed

    def spoil(self, why: str) -> None:
        """Drops the current step when it ends, since what it records would be wrong; called by a
        framework's adapter."""
        if self._step is not None and self._step.spoiled is None:
            self._step.spoiled = why

    @contextmanager
    def microbatch(
        self, number: int | Sequence[int], dim: int = 0, of: int | None = None
    ) -> Iterator[Tracer]:
        """Assigns what runs inside to the global micro-batch `number`.

        Outside of any such context, the forwards of the whole model are counted: each with a
        backward of its own is a micro-batch. The same micro-batch may be entered again, for
        instance for a backward that runs apart from its forward.

        number: a list for a run of several micro-batches at once, such as the reference's one big
            batch. They are concatenated along dimension `dim` of the activations, unless a layout
            gives `input_batch` or `output_batch`. Gradients of parameters are then their sum; the
            loss and other floating-point numbers are their mean.
        of: the number of micro-batches of each data-parallel rank. `number` is then the rank's own
            number, from 0 on, and the global number is data-parallel rank * `of` + `number`.
        """
        step = self._step
        if step is None:
            yield self
            return
        outer = step.calls.microbatch, step.calls.paused, step.in_microbatch
        try:
            batch = batch_of(number, dim)
            if of is not None:
                ranks = len(self._output.meshes.ranks)
                batch = global_number(batch, of, self._job.data.place, ranks)
            step.calls.microbatch = batch
        except Exception as error:
            said = str(error) if isinstance(error, TraceError) else describe(error)
            self._problems.mistake(step.number, f"{said}; what runs inside is not recorded")
            step.calls.paused = True
        step.in_microbatch = True
        try:
            yield self
        finally:
            step.calls.microbatch, step.calls.paused, step.in_microbatch = outer

    def loss(
        self, loss: torch.Tensor, placements: Placements | None = None, **data: Any
    ) -> torch.Tensor:
        """Records this rank's loss of the current micro-batch, and returns it.

        placements: axis -> placement of a loss that is not replicated, e.g. {"dp":
            Partial("mean")}.
        data: what the loss is computed from that no module got, such as labels=labels; recorded as
            by `scalar`, with this micro-batch. Of a loss of one part of the samples or tokens, they
            lie as the model's input does, or as labels=(labels, {"cp": Shard(1)}) says.
        """
        step = self._step
        if step is not None:
            self.loss_data(self._known(placements), **data)
            with step.recorder.guarded(Key(step.number, None, "loss", "loss")):
                placements = self._known(placements)
                note_loss(step, loss)
                name = loss_name(self._job.names)
                takes = self._job.selection.takes(name)
                record_loss(step, loss, placements, name if takes else None)
                if step.flow is not None and not step.calls.paused:
                    step.flow.loss(name, loss)
        return loss

    def loss_data(self, _placements: Placements | None = None, **data: Any) -> None:
        """Records the `data` of `loss`, ahead of one that runs parts of its backward itself."""
        if self._step is not None:
            meshes = self._output.meshes
            record_loss_data(self._step, self._job.assignment, meshes, _placements, data)

    def grad_norm(
        self,
        norm: Number,
        clip_norm: float | None = None,
        placements: Placements | None = None,
        parameters: Iterable[torch.Tensor] | None = None,
    ) -> None:
        """Records the gradient norm before clipping.

        clip_norm: what the gradients are clipped to, for the manifest's optimizer entries.
        parameters: those whose gradients the norm is of; all, or those that torch's function has
            clipped by this very norm, if they are left out.
        """
        step = self._step
        if step is not None:
            with step.recorder.guarded(Key(step.number, None, "grad_norm", GRAD_NORM)):
                record_norm(step, norm, clip_norm, self._known(placements), parameters)

    def scalar(
        self,
        name: str,
        value: Number,
        placements: Placements | None = None,
        microbatch: Batch | None = None,
    ) -> None:
        """Records another number, or a tensor such as the labels of a loss.

        Inside `microbatch()` it belongs to the micro-batch. Outside, a tensor that the losses of
        some micro-batches keep for their backward belongs to these, and all else to the step.

        microbatch: the global number of the micro-batch that it belongs to.
        """
        step = self._step
        if step is None:
            return
        if microbatch is None and step.in_microbatch:
            microbatch = step.calls.microbatch
        with step.recorder.guarded(Key(step.number, None, "scalar", str(name))):
            placements = self._known(placements)
            if microbatch is None:
                record_number(step, name, value, placements)
            else:
                record_value(step, "scalar", name, value, placements, microbatch)

    def state(self, name: str, source: Source) -> None:
        """Records state that no optimizer moves, such as an average of the weights, when each step
        from now on begins and ends. source: a module, tensors by their names, or a function that
        returns these; its tensors are called `name` and their own names."""
        self._steps.kept.sources[str(name)] = source

    def index(self, name: str, rows: torch.Tensor, placements: Placements | None = None) -> None:
        """Records which rows of the whole tensor this rank holds, for tensors placed by `Rows`.

        rows: 1-D integer tensor, one row number for each row held, negative for padding. Record it
            in the same micro-batch and as often as the tensors that name it.
        placements: how `rows` itself is sharded over the axes placed by `Rows`.
        """
        step = self._step
        if step is None:
            return
        with step.recorder.guarded(Key(step.number, None, "index", str(name))):
            if rows.dim() != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
                raise TraceError(
                    f"{rows.dtype} of shape {list(rows.shape)}; give the numbers of the rows as "
                    "integers in one dimension"
                )
            batch = step.calls.microbatch
            record_value(step, "index", name, rows, self._known(placements), batch)

    def _known(self, placements: Placements | None) -> Placements | None:
        """`placements` on the axes that this run's mesh has."""
        return None if placements is None else self._output.meshes.known(placements)

    @contextmanager
    def unrecorded(self, why: str | None = None) -> Iterator[Tracer]:
        """Suspends recording inside: for an evaluation; of a part of the step, tell `why`."""
        step = self._step
        if step is None:
            yield self
            return
        if why is not None:
            self._problems.mistake(step.number, why)
        outer, step.calls.paused = step.calls.paused, True
        try:
            yield self
        finally:
            step.calls.paused = outer

    def main_grads(self, factor: Number | None = None) -> None:
        """Records the gradients that the optimizer will consume: `main_grad` of the parameters
        that have it, else `grad`. Without this call its step records them when it begins.
        factor: what the script multiplied them by since, such as 1 / tokens of the step."""
        step = self._step
        if step is None:
            return
        if step.main_grads:
            said = f"step {step.number}: main_grads() once more; the first gradients are kept"
            self._problems.say_once(said)
            return
        if factor is not None:
            record_gradient_factor(step, factor)
        self._updates.record_main_gradients(step)

    def params_after_step(self) -> None:
        """Records the updated parameters. Without this call they are recorded at the end of the
        step if the optimizer given to `trace` made its step."""
        step = self._step
        if step is not None:
            step.params_after_done = True
            self._updates.record_parameters(step, "param_after_step")

    @property
    def skipped(self) -> list[str]:
        """The tensors without a dtype in the trace format, as "kind name dtype"."""
        return sorted(self._output.skipped)

    @property
    def incomplete(self) -> list[str]:
        """What this rank could not record, one text for each problem, in the order of discovery."""
        return self._problems.texts()

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

        The rank that finds the files of all ranks writes manifest.json. I/O errors are in `failed`.
        """
        if self._closed:
            return
        if self._step is not None:
            self._closing = True
            self._problems.say_once(
                f"close() inside step {self._step.number}; the tracer closes when the step ends"
            )
            return
        self._closed, last = True, (self._next_step - 1 if self._next_step else None)
        self._detach()
        if self.failed is None:
            self._tell(mistakes_at_close(self._job, self._steps.finished, last))
        layouts = self._problems.layouts(self._job.names.modules)
        self._output.finish(self._problems.entries(), layouts)

    def suggest_layouts(self, reference: str | Path) -> list[str]:
        """Closes the tracer. The rank that closes last prints and returns what `suggest_layouts`
        says of the run and `reference`, a trace of one process; the others return an empty list."""
        self.close()
        return self._output.suggestions(reference)

    def __enter__(self) -> Tracer:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None or self._steps.finished:
            self.close()
        elif not self._closed and len(self._output.meshes.ranks) > 1:
            # The manifest of all ranks needs this rank's file, and says why it is empty.
            self._problems.note("*", "the rank ended before it had finished a traced step")
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
        self.__exit__(None if self._steps.finished else SystemExit, None, None)

    def _detach(self) -> None:
        self._cancel_at_exit()
        if self._updates.watch is not None:
            self._updates.watch.remove()

    def begin_microbatch(self, number: int) -> bool:
        """Assigns what runs from now on to micro-batch `number`; called by a framework's adapter.

        Returns False, and changes nothing, outside of a step and inside the user's `microbatch()`.
        """
        if self._step is None or self._step.in_microbatch:
            return False
        self._step.calls.microbatch = number
        return True

    def before_update(self, part: Any = None) -> None:
        """Records what an optimizer step begins with; called by the optimizer's watch."""
        if self._step is not None:
            self._updates.begin(self._step, part)

    def after_update(self, part: Any = None) -> None:
        """Notes that the optimizer has made its step; called by the optimizer's watch."""
        self._updates.made(self._step, part)

    def evaluated_again(self) -> AbstractContextManager[Tracer]:
        """A context for an evaluation of the optimizer's closure after the first one of a step:
        nothing of it is recorded. Called by the optimizer's watch."""
        if self._step is not None:
            self._updates.evaluated_again(self._step)
        return self.unrecorded()
