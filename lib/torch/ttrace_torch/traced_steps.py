"""The life of a traced step: what is recorded when it begins and ends, its hooks and contexts.

Nothing of it throws into the training loop.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ttrace_torch.base.collection import without_collection
from ttrace_torch.base.names import ROOT
from ttrace_torch.base.narrow_products import narrow_products
from ttrace_torch.base.problems import Problems
from ttrace_torch.capture.clipping import Clipping
from ttrace_torch.capture.compiled import compiled_of
from ttrace_torch.capture.dataflow import DataFlow
from ttrace_torch.capture.evaluations import Evaluations
from ttrace_torch.capture.forwards import Forwards
from ttrace_torch.capture.hooks import ForwardHooks
from ttrace_torch.capture.operations import convolves, recurs
from ttrace_torch.capture.random_draws import recorded_draws
from ttrace_torch.capture.random_numbers import watch_random_numbers
from ttrace_torch.capture.recorder import Recorder, describe
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.stable_sorts import stable_sorts
from ttrace_torch.capture.step import Step, numbers_of_held
from ttrace_torch.capture.turns import Turns
from ttrace_torch.checks import active_dropout
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.framework import Listener
from ttrace_torch.job import TracedJob
from ttrace_torch.kept import KeptState
from ttrace_torch.optimizer.state import record_states
from ttrace_torch.perturb.kernels import other_kernels
from ttrace_torch.traced_updates import TracedUpdates
from ttrace_torch.write import done


class TracedSteps:
    """Begins and ends the traced steps of a job.

    finished: numbers of the steps that were recorded to their end.
    updates: records what belongs to the optimizer's steps.
    kept: records what else lives between the steps.
    """

    def __init__(self, job: TracedJob, problems: Problems) -> None:
        self.finished: set[int] = set()
        self.kept = KeptState(job, problems)
        self.updates = TracedUpdates(job, problems, self.kept)
        self._job = job
        self._problems = problems
        self._facts: dict[str, Any] = {}
        self._made_before = 0
        self._times = job.output.times
        self._forwards: Forwards
        self._turns: Turns
        self._evaluations: Evaluations

    def begins(self, number: int) -> bool:
        """Whether step `number`, which begins, is recorded."""
        takes = self._job.steps.takes(number)
        self._times.begin(takes)
        return takes

    def mistake_in(self, number: int, running: Step | None) -> str | None:
        """Why step `number`, which begins, cannot be recorded; None if it can."""
        if running is not None:
            return f"step {number} begins inside step {running.number}"
        if number in self.finished or number < 0:
            return f"step {number} has been traced already, or is negative"
        return None

    def over(self, last: int) -> bool:
        """Whether the trace is to be closed after step `last`: somebody waits for it, and no later
        step is recorded."""
        return done.is_awaited() and self._job.steps.over(last)

    @without_collection()
    def enter(self, number: int, stack: ExitStack, listener: Listener) -> Step | None:
        """The step that begins, with its hooks; None if it cannot be recorded."""
        job = self._job
        try:
            job.names.check_unchanged()
            scales = self.updates.scales()
            self._made_before = self.updates.count()
            step = self._begin(number, scales)
            hooks = ForwardHooks(step, job.perturber, job.rewriter)
            if job.rewriter is not None:
                job.rewriter.begin(number, scales)
            stack.callback(hooks.remove)
            stack.callback(step.gradients.remove)
            self.updates.record_parameters(step, "param")
            self._record_optimizer_state(step)
            self.kept.begin(step, bool(self.finished or self._made_before), stack)
            compiled = compiled_of(job.names)
            step.gradients.follow_parameters(
                job.names, job.selection.parameters, job.assignment, compiled
            )
            self._evaluations.attach(job.names, compiled, stack)
            self._forwards.attach(job.names, compiled, stack)
            hooks.attach(job.names, job.selection.modules, job.assignment, compiled)
            # mistakes_at_step() has named active dropout already; hooks on a compiled model would
            # break its graph.
            if ROOT not in compiled and not active_dropout(job.names):
                # A stage amid a pipeline has no module of the name ROOT, and a wrapper may call
                # the model past its own hooks.
                parts = job.names.naming.parts(job.names.model)
                if len(parts) == 1:
                    parts = [job.names.modules.get(ROOT, parts[0])]
                watch_random_numbers(parts, stack, self._problems.advise)
            stack.enter_context(stable_sorts())
            if job.perturber is not None and not compiled:
                stack.enter_context(other_kernels(job.names.modules.values()))
            step.clipping = Clipping(
                job.names.parameters,
                lambda names: self.updates.record_before_clipping(step, names),
                job.reference.note_norm,
                isinstance(job.optimizer, list),
            )
            stack.enter_context(step.clipping.followed())
            # Ranks that share out a micro-batch may each draw numbers for their own part, and
            # nothing gives their placement.
            _, shares = job.data.place or (0, 1)
            if not compiled and len(job.output.meshes.ranks) == shares:
                stack.enter_context(recorded_draws(hooks.record_draw))
            watch = stack.enter_context(job.framework.watch_step(listener, self._turns))
            step.gradients.backward_batch = watch.backward_batch
            step.gradients.repeats_outputs = watch.repeats_outputs
            step.gradients.after_other_hooks = watch.after_other_hooks
            step.gradients.divided_behind_loss = watch.divided_behind_loss
            stack.enter_context(
                job.scaler.watching(
                    job.optimizer,
                    lambda: len(step.updated),
                    lambda: self.updates.met_scaler(step),
                    lambda optimizer: self.updates.skipped(step, optimizer),
                )
            )
            stack.enter_context(job.reference.recording(hooks.running, job.scaler.state()))
            return step
        except Exception as error:
            self._close(stack, None, None, None)
            self._drop(number, error)
            return None

    def leave(
        self, step: Step, stack: ExitStack, kind: Any, error: Any, where: Any
    ) -> TraceError | None:
        """Ends a step; `kind`, `error` and `where` are those of the exception that its body threw.

        Returns why a run with a perturbation or plan did not change as it was to.
        """
        missed: TraceError | None = None
        try:
            spoiled: Exception | None = self._close(stack, kind, error, where)
            if spoiled is None and step.spoiled is not None:
                spoiled = TraceError(step.spoiled)
            if kind is None and spoiled is None:
                if step.updated and not step.params_after_done:
                    self.updates.record_parameters(step, "param_after_step")
                self.kept.end(step)
                missed = self._missed(step)
                if missed is None:
                    self._finish(step)
                    self.finished.add(step.number)
        except Exception as error_of_own:
            spoiled = error_of_own
        finally:
            if step.flow is not None:
                step.flow.release()
        if step.number not in self.finished:
            self._drop(step.number, spoiled)
        return missed

    def _close(self, stack: ExitStack, kind: Any, error: Any, where: Any) -> Exception | None:
        """Leaves the contexts of a step. Returns what went wrong with it."""
        try:
            stack.__exit__(kind, error, where)
        except BaseException as own:
            if own is not error:
                return own if isinstance(own, Exception) else None
        return None

    def _drop(self, number: int, error: Exception | None) -> None:
        """Drops the records of a step that threw, or that `error` made useless."""
        self._job.output.drop()
        self._job.reference.drop()
        if error is not None:
            said = str(error) if isinstance(error, TraceError) else describe(error)
            self._problems.mistake(number, f"step {number} is not recorded: {said}")

    def _begin(self, number: int, scales: dict[str, float]) -> Step:
        """Returns the state of a step that begins."""
        job, output = self._job, self._job.output
        recorder = Recorder(
            output.meshes,
            output.rank,
            job.selection.kinds,
            output.skipped,
            output.put,
            scales,
            job.writing,
            job.reference.observer(),
            self._problems,
        )
        job.reference.follow_scales(recorder.scales)
        # The first finished step records the data flow of all steps.
        follows_flow = "modules" not in self._facts and job.writing.takes(output.rank)
        flow = DataFlow() if follows_flow else None
        step = Step(number, recorder, flow, job.names.earlier_runs)
        place = job.data.place or (0, 1)
        changed = job.perturber is not None or job.rewriter is not None
        self._turns = Turns(place, job.interleaved, changed)
        self._evaluations = Evaluations(step.calls)
        framework = job.framework
        self._forwards = Forwards(
            step,
            framework.counts_forwards,
            self._turns,
            lambda inputs: framework.shares_batch(inputs, job.data.ranks),
        )
        return step

    def _missed(self, step: Step) -> TraceError | None:
        """The error if a perturbation or plan did not find the tensors that it should change."""
        perturber, rewriter = self._job.perturber, self._job.rewriter
        if perturber is not None and perturber.missed:
            return TraceError(
                f"step {step.number}: nothing was perturbed, no module returned a floating-point "
                "tensor; run the model inside the step"
            )
        try:
            if rewriter is not None:
                rewriter.end()
        except TraceError as error:
            return error
        return None

    def _finish(self, step: Step) -> None:
        """Hands the records of a step to the output."""
        perturber, rewriter = self._job.perturber, self._job.rewriter
        if self.updates.watch is not None:
            self._facts.setdefault("updates_before", self._made_before)
        if step.flow is not None:
            self._facts["modules"] = step.flow.entries(self._job.names)
        self._note_products(step)
        if perturber is not None:
            self._facts["noise"] = perturber.facts()
        if rewriter is not None:
            self._facts["plan"] = rewriter.facts()
        self.updates.end(step)
        records, precision = step.recorder.records.values(), step.recorder.precision
        forwards = self._evaluations
        if forwards.seen and not (forwards.trained or step.calls.any_run):
            self._problems.say_once(
                f"step {step.number}: every forward of the model ran with gradients off, and none "
                "is recorded; to trace an evaluation, turn them off before the step begins"
            )
        self._facts["incomplete"] = self._problems.entries()
        rewritten = self.updates.rewritten()
        if rewritten:
            found = {"step": step.number, "params": rewritten}
            self._facts["rewritten"] = [*self._facts.get("rewritten", []), found]
        turns, held = self._turns.final(), numbers_of_held(step)
        numbers: dict[int, int | None] = {**turns}
        numbers.update((of, n if n is None else turns.get(n, n)) for of, n in held.items())
        self._job.output.write(
            step.number, records, precision, step.optimizer, self._facts, numbers
        )
        # The specification comes after the trace: if it fails, the trace is not lost.
        limit = step.clipping.limit() if step.clipping is not None else None
        clip_norm = step.clip_norm if step.clip_norm is not None else limit
        self._job.reference.finish(clip_norm, step.number, step.optimizer, rewritten)

    def _note_products(self, step: Step) -> None:
        precision = step.recorder.precision
        modules = self._job.names.modules.values()
        found = narrow_products(recurs(modules)) if precision.on_gpu else {}
        if not found:
            return
        self._facts["products"] = found
        operations = step.flow.operations() if step.flow is not None else ()
        if "matmul" in found or convolves(modules, operations):
            precision.note_tf32()

    def _record_optimizer_state(self, step: Step) -> None:
        names, selection = self._job.names, self._job.selection
        if self.updates.watch is None or not step.recorder.wants("optimizer_state"):
            return
        with step.recorder.guarded(Key(step.number, None, "optimizer_state", "*")):
            record_states(
                self.updates.watch.states(names),
                {name: names.parameters[name] for name in selection.parameters},
                self._job.assignment,
                step,
                self._job.output.meshes,
                self._job.output.rank,
            )
