"""Forward hooks of one traced step.

They are added when the step begins and removed when it ends, so a step that is not traced costs
nothing. They run before all other forward hooks and after all other forward pre-hooks, next to the
module itself, where tensor-parallel modules still have DTensors. They throw only where a
perturbation or a plan cannot be carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from ttrace_torch.base import pytree
from ttrace_torch.base.microbatch import Batch, BatchRules, MicroBatches, number_of, pick_rule
from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.capture.calls import Run, in_backward
from ttrace_torch.capture.compiled import is_inside_any
from ttrace_torch.capture.operations import makes_another_output
from ttrace_torch.capture.random_draws import DRAW
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.step import Step
from ttrace_torch.capture.values import ArgumentNames, Value, result_values
from ttrace_torch.capture.views import own_base
from ttrace_torch.errors import TraceError, Unplaced
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.layouts import ModuleLayout
from ttrace_torch.perturb.perturber import Perturber
from ttrace_torch.rewrite.rewriter import Rewriter, Turn

_COMPILED = (
    "torch.compile has taken these modules, whose insides have no hooks; run the traced job with "
    "TORCHDYNAMO_DISABLE=1 to record them"
)


class ForwardHooks:
    """Forward hooks on the modules of a model, for one step."""

    def __init__(self, step: Step, perturber: Perturber | None, rewriter: Rewriter | None) -> None:
        self._step = step.number
        self._recorder = step.recorder
        self._calls = step.calls
        self._gradients = step.gradients
        self._flow = step.flow
        self._flow_microbatch: Batch | None = None
        self._perturber = perturber
        self._rewriter = rewriter
        self._running: dict[str, list[Run]] = {}
        self._handles: list[Any] = []

    def attach(
        self,
        names: ModelNames,
        recorded: set[str],
        assignment: Assignment,
        compiled: Mapping[str, nn.Module],
    ) -> None:
        """Adds hooks to the modules that are recorded, perturbed or rewritten.

        compiled: the result of `compiled_of`; hooks see only the boundaries of these modules.
        """
        for name, outer in compiled.items():
            self._note_compiled(name, outer is names.modules[name])
        for name, module in names.modules.items():
            if is_inside_any(name, compiled):
                continue
            called = compiled.get(name, module)
            if name in compiled and called is module:
                continue
            rewritten = self._rewriter is not None and self._rewriter.takes(name)
            if name in recorded or rewritten or self._perturber is not None:
                layout = assignment.modules[name]
                layout.passed_over = partial(self._passed_over, name)
                hook = _ModuleHook(self, name, module, name in recorded, layout)
                self._handles.append(
                    called.register_forward_pre_hook(hook.before, with_kwargs=True)
                )
                self._handles.append(
                    called.register_forward_hook(hook.after, prepend=True, with_kwargs=True)
                )

    def _note_compiled(self, name: str, in_place: bool) -> None:
        """Notes which tensors of a compiled module cannot be seen."""
        problems = self._recorder.problems
        inner = "*" if name == ROOT else f"{name}.*"
        for kind in ("input", "output", "grad_output"):
            if self._recorder.stores(kind):
                problems.note(f"*/*/{kind}/{inner}/*/*", _COMPILED)
                if in_place:
                    problems.note(f"*/*/{kind}/{name}*/*/*", _COMPILED)
        problems.advise(f"{name}: {_COMPILED}")

    def _passed_over(self, module: str, side: str, index: int, why: str) -> None:
        """Reports a tensor to which the module's one dictionary of placements does not apply."""
        self._recorder.problems.advise(
            f"{module}: {side} {index} {why} as the tensor that the layout's one dictionary fits, "
            f"so it is taken for whole; a list says each: {side}=[{{...}}, None, ...]"
        )

    def remove(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def running(self) -> bool:
        """Whether a module is running."""
        return any(self._running.values())

    def record_draw(self, drawn: torch.Tensor) -> None:
        """Records random numbers that the innermost module that runs has drawn. A recomputation
        draws the same ones again."""
        running = [name for name, runs in self._running.items() if runs]
        batch = self._calls.microbatch
        if not running or self._calls.paused or in_backward() or isinstance(batch, MicroBatches):
            return
        inner = max(running, key=lambda name: (name != ROOT, name.count(".")))
        name = DRAW if inner == ROOT else f"{inner}.{DRAW}"
        key = Key(self._step, number_of(batch), "scalar", name)
        self._recorder.add(self._recorder.next_call(key), drawn.detach(), {})

    def before(self, hook: _ModuleHook, given: Any) -> Any:
        """Handles module `hook.name` before it runs on `given`, (args, kwargs). Returns its new
        arguments, or None to keep them."""
        run = self._calls.begin(hook.name)
        rewritten = self._rewrite(hook, run, given)
        if run is None:
            return rewritten
        self._running.setdefault(hook.name, []).append(run)
        if hook.recorded:
            try:
                self._record_inputs(hook, run, given, given if rewritten is None else rewritten)
            except Exception as error:
                self._recorder.leave_out(self._key(run, "input", hook.name), error)
        return rewritten

    def _record_inputs(self, hook: _ModuleHook, run: Run, given: Any, used: Any) -> None:
        if self._follows_flow(run):
            inputs = pytree.tensors_in(given)
            self._flow.enter(hook.name, hook.module, run, inputs)  # type: ignore[union-attr]
        if run.recomputed:
            return
        for index, (name, tensor, position) in enumerate(hook.arguments(used)):
            key = self._key(run, "input", name)
            try:
                placements = hook.layout.of_input(index, tensor)
                if not self._recorder.wants("input"):
                    continue
                described, together = self._microbatches(
                    run, key, tensor, hook.layout.input_batch, index
                )
            except Exception as error:
                self._unplaced(hook, index, key, error)
                continue
            if described:
                self._recorder.add(
                    key, tensor, placements, microbatches=together, position=position
                )

    def after(self, hook: _ModuleHook, given: Any, output: Any) -> Any:
        """Handles the `output` of module `hook.name`, run on `given`, (args, kwargs). Returns its
        new output, or None to keep it."""
        waiting = self._running.get(hook.name)
        run = waiting.pop() if waiting else None
        perturbed = self._perturb(hook, run, output)
        handed_on = perturbed
        if run is not None and self._rewriter is not None:
            turn = run.microbatch, run.call
            handed_on = self._rewriter.outputs(hook.name, output, turn, hook.layout)
        if run is not None and hook.recorded:
            try:
                self._record_outputs(hook, run, given, output if perturbed is None else perturbed)
            except Exception as error:
                self._recorder.leave_out(self._key(run, "output", hook.name), error)
        return handed_on

    def _record_outputs(self, hook: _ModuleHook, run: Run, given: Any, output: Any) -> None:
        inputs = pytree.tensors_in(given)
        outputs = result_values(hook.name, output)
        if not run.recomputed:
            for value in outputs:
                self._recorder.precision.note(value.tensor)
        if self._follows_flow(run):
            self._flow.leave(hook.name, run, inputs, outputs)  # type: ignore[union-attr]
        for index, value in enumerate(outputs):
            self._record_output(hook, run, inputs, index, value)

    def _record_output(
        self, hook: _ModuleHook, run: Run, inputs: list[torch.Tensor], index: int, value: Value
    ) -> None:
        rules, (name, tensor, position) = hook.layout.output_batch, value
        key = self._key(run, "output", name)
        gradient = self._key(run, "grad_output", name)
        try:
            placements = hook.layout.of_output(index, tensor)
            described, together = self._microbatches(run, key, tensor, rules, index)
            if described and not run.recomputed:
                shown = hook.layout.swapped(tensor)
                self._recorder.add(key, shown, placements, microbatches=together, position=position)
            if isinstance(tensor, nn.Parameter) and not hook.layout.follows_parameters:
                return
            if makes_another_output(hook.module, index):
                return
            _, together = self._microbatches(run, gradient, tensor, rules, index, gradient=True)
            self._gradients.follow(
                tensor,
                gradient,
                hook.layout.of_grad_output(index, tensor),
                own_base(tensor, inputs),
                together,
                hook.layout.swapped,
                position,
            )
        except Exception as error:
            if not run.recomputed:
                self._unplaced(hook, index, key, error)
            if tensor.requires_grad:
                self._unplaced(hook, index, gradient, error)

    def _unplaced(self, hook: _ModuleHook, index: int, key: Key, error: Exception) -> None:
        """Notes that a module's value, or its gradient, is not recorded."""
        if isinstance(error, Unplaced) and self._recorder.stores(key.kind):
            problems = self._recorder.problems
            problems.unplaced(key.kind, key.name, hook.name, index, error)
        else:
            self._recorder.leave_out(key, error)

    def _key(self, run: Run, kind: str, name: str) -> Key:
        return Key(self._step, number_of(run.microbatch), kind, name, run.call)

    def _microbatches(
        self,
        run: Run,
        key: Key,
        tensor: torch.Tensor,
        rules: BatchRules | None,
        index: int,
        gradient: bool = False,
    ) -> tuple[bool, dict[str, Any] | None]:
        """Whether the tensor can be described, and its `microbatches` if it is of several."""
        batch = run.microbatch
        if not isinstance(batch, MicroBatches) or not self._recorder.wants(key.kind):
            return True, None
        found = batch.activation(pick_rule(rules, index), tensor, str(key), gradient)
        return found is not None, found

    def _follows_flow(self, run: Run) -> bool:
        if self._flow is None:
            return False
        if self._flow_microbatch is None:
            self._flow_microbatch = run.microbatch
        return run.microbatch == self._flow_microbatch

    def _perturb(self, hook: _ModuleHook, run: Run | None, output: Any) -> Any:
        """The perturbed output; None if it is not perturbed.

        A recomputation must see the values of the first pass, so it is perturbed again.
        """
        perturber, name = self._perturber, hook.name
        if perturber is None or not perturber.takes(name, 0 if run is None else run.call):
            return None
        if not any(tensor.is_floating_point() for tensor in pytree.tensors_in(output)):
            return None
        turn = self._turn(run, name, "perturb", "noise runs")
        if turn is None:
            return None
        return perturber.applied_to(output, self._step, *turn, name, hook.layout)

    def _rewrite(self, hook: _ModuleHook, run: Run | None, given: Any) -> Any:
        """(args, kwargs) with overwritten tensors; None if nothing is overwritten."""
        if self._rewriter is None or not self._rewriter.takes(hook.name):
            return None
        turn = self._turn(run, hook.name, "rewrite", "rewritten runs")
        if turn is None:
            return None
        return self._rewriter.inputs(hook.name, given, turn, run is None, hook.layout)

    def _turn(self, run: Run | None, name: str, action: str, runs: str) -> Turn | None:
        """The micro-batch and call of a run, also of a recomputation that is not recorded."""
        if run is not None:
            return run.microbatch, run.call
        if not in_backward():
            return None
        microbatch = self._calls.microbatch
        if self._calls.count(microbatch, name) != 1:
            raise TraceError(
                f"{name} is recomputed and was not called exactly once in micro-batch "
                f"{microbatch}; which call to {action} cannot be told, so switch checkpointing "
                f"off in {runs}"
            )
        return microbatch, self._calls.first(name)


class _ModuleHook:
    """The two hooks of one module.

    module: the module that has the name. The object that torch.compile calls in its place runs the
        hooks, but has neither its signature nor its class.
    """

    def __init__(
        self,
        hooks: ForwardHooks,
        name: str,
        module: nn.Module,
        recorded: bool,
        layout: ModuleLayout,
    ):
        self._hooks = hooks
        self.name = name
        self.module = module
        self.recorded = recorded
        self.layout = layout
        self._names: ArgumentNames | None = None

    def arguments(self, given: Any) -> list[Value]:
        """The tensors of `given`, (args, kwargs), by name."""
        if self._names is None:
            self._names = ArgumentNames(self.module)
        return self._names.values(self.name, given)

    def before(self, called: nn.Module, args: Any, kwargs: Any) -> Any:
        return self._hooks.before(self, (args, kwargs))

    def after(self, called: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        return self._hooks.after(self, (args, kwargs), output)
