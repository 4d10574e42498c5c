"""Gradients: tensor hooks on module outputs and on parameters, for one step.

Full backward hooks are not used: they wrap a module's inputs and outputs, and change how in-place
operations behave.

FSDP2's `fully_shard` puts an unsharded parameter into the module for the forward. Autograd knows
that tensor, and the hooks of the sharded parameter never fire. The same tensor object is used every
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Callable, Optional

import torch
from torch import nn

from ttrace_torch.base.microbatch import Batch, MicroBatches, number_of
from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.capture.calls import CallCounter
from ttrace_torch.capture.compiled import is_inside_any
from ttrace_torch.capture.penalties import PenaltyPasses
from ttrace_torch.capture.recorder import Recorder
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.views import ViewOf
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.dtensor import is_dtensor
from ttrace_torch.layout.layouts import ParameterLayout
from ttrace_torch.layout.placements import Partial, Placements

Hook = Callable[[torch.Tensor | None], None]

_COMPILED = (
    "torch.compile has taken these parameters' modules, and FSDP2 shards them: no hook sees their "
    "raw gradients; run the traced job with TORCHDYNAMO_DISABLE=1 to record them"
)


def follow_unsharded_params(names: ModelNames, hooks: Mapping[str, Hook]) -> list[Any]:
    """Puts `hooks` (canonical parameter name -> hook) on the unsharded tensors of FSDP2 parameters.

    Returns a list of one handle with `remove()`, or an empty list if no parameter is a DTensor. The
    unsharded tensor is looked up whenever a module that holds the parameter, or a module around it,
    begins to run: a parent may use its child's weight.
    """
    found = _UnshardedParams()
    for name, hook in hooks.items():
        if is_dtensor(names.parameters[name]):
            for module, local in names.owners[name]:
                found.watch(names, module, local, name, hook)
    return [found] if found.handles else []


class _UnshardedParams:
    """Forward pre-hooks that look up unsharded parameters, and the hooks on those that they
    found."""

    def __init__(self) -> None:
        self.handles: list[Any] = []
        self._known: set[int] = set()

    def watch(self, names: ModelNames, owner: str, local: str, name: str, hook: Hook) -> None:
        """Looks up the unsharded tensor of parameter `name`, which is attribute `local` of
        `owner`."""
        module, parameter = names.modules[owner], names.parameters[name]

        def look(*_: Any) -> None:
            standing = getattr(module, local, None)
            if standing is parameter or not isinstance(standing, torch.Tensor):
                return
            if standing.requires_grad and id(standing) not in self._known:
                self._known.add(id(standing))
                self.handles.append(standing.register_hook(hook))  # type: ignore[no-untyped-call]

        for above in _and_those_around(names.modules, owner):
            self.handles.append(above.register_forward_pre_hook(look))

    def remove(self) -> None:
        """Removes all hooks."""
        for handle in self.handles:
            handle.remove()


def _and_those_around(modules: Mapping[str, nn.Module], name: str) -> list[nn.Module]:
    """The module called `name`, and the modules that contain it."""
    parts = [] if name == ROOT else name.split(".")
    paths = [".".join(parts[:length]) or ROOT for length in range(len(parts) + 1)]
    return [modules[path] for path in paths if path in modules]


# Key of a gradient, its `microbatches` in the manifest, and the position of its value.
Described = tuple[Key, Optional[dict[str, Any]], Optional[int]]


class GradientHooks:
    """Tensor hooks of one step. They do nothing once removed, even if a tensor outlives the
    step."""

    def __init__(self, step: int, recorder: Recorder, calls: CallCounter) -> None:
        self._step = step
        self._recorder = recorder
        self._calls = calls
        self._active = True
        self._handles: list[Any] = []
        # Parameter name, number of its backward in the step -> micro-batch, from a framework that
        # knows it better than the current micro-batch; returns None if it does not.
        self.backward_batch: Callable[[str, int], Batch | None] | None = None
        # The penalty passes of the model's parameters; None before these are followed.
        self._penalties: PenaltyPasses | None = None
        # Whether the current backward passes outputs a second time.
        self.repeats_outputs: Callable[[], bool] | None = None
        # Whether gradients are recorded as all hooks of their tensor leave them.
        self.after_other_hooks = False
        # See StepWatch.
        self.divided_behind_loss: Callable[[torch.Tensor], Callable[[], int] | None] | None = None

    def follow(
        self,
        tensor: torch.Tensor,
        key: Key,
        placements: Placements,
        base: torch.Tensor | None = None,
        microbatches: dict[str, Any] | None = None,
        shown: Callable[[torch.Tensor], torch.Tensor] | None = None,
        position: int | None = None,
    ) -> None:
        """Records the gradient of a module's output under `key`, once it is computed.

        Gradients of several backwards through the same tensor add up.
        base: tensor that the output is a view of; its gradient is used if the view is overwritten.
        microbatches: the manifest's `microbatches`, for an output of several.
        shown: maps the gradient to the tensor to record.
        position: the output's position, if its name does not give it.
        """
        if not tensor.requires_grad or not self._recorder.wants(key.kind):
            return
        record = self._hook(lambda: (key, microbatches, position), placements, shown)
        if base is not None:
            record = self._hook_with_base(record, ViewOf(tensor, base), base)
        handle = self._register(tensor, record)
        if tensor.is_leaf:
            # Other tensors die with the graph; a leaf and its hooks do not.
            self._handles.append(handle)

    def follow_loss(self, loss: torch.Tensor, key: Key, placements: Placements) -> None:
        """Records under `key` the gradient that arrives at a loss: the factor that the script
        multiplies the loss by before its backward.

        placements: those of the loss. Gradients of a mean add up to the whole, those of a sum are
            equal for every term.
        """
        if not loss.requires_grad or loss.numel() != 1 or not self._recorder.wants(key.kind):
            return
        shared = {a: Partial("sum") for a, one in placements.items() if one == Partial("mean")}
        batch = self._calls.microbatch
        together = batch.entry("sum", 0, str(key)) if isinstance(batch, MicroBatches) else None
        divided = None if self.divided_behind_loss is None else self.divided_behind_loss(loss)
        shown = None if divided is None else _divided_by(divided)
        self._register(loss, self._hook(lambda: (key, together, None), shared, shown))

    def _register(self, tensor: torch.Tensor, record: Hook) -> Any:
        if self.after_other_hooks and tensor.grad_fn is not None:
            place = tensor.output_nr
            return tensor.grad_fn.register_prehook(lambda gradients: record(gradients[place]))
        return tensor.register_hook(record)  # type: ignore[no-untyped-call]

    def follow_parameters(
        self,
        names: ModelNames,
        selected: set[str],
        layout: Assignment,
        compiled: Mapping[str, nn.Module],
    ) -> None:
        """Records every parameter's raw gradient as each micro-batch's backward leaves it.

        compiled: what `compiled_of` says. Hooks that look parameters up may not stand inside.
        A parameter sharded by FSDP2 gets none. Its unsharded tensor does, on each rank for that
        rank's own micro-batch.
        """
        self._penalties = PenaltyPasses(names.parameters.values())
        if not self._recorder.wants("param_grad"):
            return
        hooks = {}
        for name, parameter in names.parameters.items():
            if name in selected and parameter.requires_grad:
                hooks[name] = _ParameterHook(self, name, layout.parameters[name])
                handle = parameter.register_hook(hooks[name])  # type: ignore[no-untyped-call]
                self._handles.append(handle)
        seen = {name: hook for name, hook in hooks.items() if not _in(compiled, names.owners[name])}
        self._handles.extend(follow_unsharded_params(names, seen))
        for name in hooks.keys() - seen.keys():
            # A parameter that FSDP2 shards is noted as left out. If it is recorded after all, the
            # note does no harm.
            if is_dtensor(names.parameters[name]):
                self._recorder.problems.note(f"*/*/param_grad/{name}/*/*", _COMPILED)

    def remove(self) -> None:
        """Removes the hooks."""
        self._active = False
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _is_other_pass(self) -> bool:
        """Whether the current pass computes no gradients of the loss, or repeats some."""
        if self.repeats_outputs is not None and self.repeats_outputs():
            return True
        return self._penalties is not None and self._penalties.running()

    def _hook_with_base(self, record: Hook, place: ViewOf, base: torch.Tensor) -> Hook:
        """The view's hook. The base's hook fires after it, and records if the view's did not
        fire."""
        recorded = False

        def from_view(gradient: torch.Tensor | None) -> None:
            nonlocal recorded
            recorded = True
            record(gradient)

        def from_base(gradient: torch.Tensor | None) -> None:
            nonlocal recorded
            if not recorded and gradient is not None:
                record(place.of(gradient))
            recorded = False

        base.register_hook(from_base)  # type: ignore[no-untyped-call]
        return from_view

    def parameter_key(self, name: str, turn: int) -> Described:
        """What the `turn`-th gradient of a parameter in the step is recorded as."""
        batch = self._calls.microbatch
        if self.backward_batch is not None:
            known = self.backward_batch(name, turn)
            batch = batch if known is None else known
        key = Key(self._step, number_of(batch), "param_grad", name)
        together = batch.entry("sum", 0, str(key)) if isinstance(batch, MicroBatches) else None
        return key, together, None

    def _hook(
        self,
        described: Callable[[], Described],
        placements: Placements | Callable[[], Placements],
        shown: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> Hook:
        return partial(self.record, described, placements, shown)

    def record(
        self,
        described: Callable[[], Described],
        placements: Placements | Callable[[], Placements],
        shown: Callable[[torch.Tensor], torch.Tensor] | None,
        gradient: torch.Tensor | None,
    ) -> None:
        """Records a gradient that a hook was given."""
        # None: a function passed the tensor without one, as DDP's does for unused results.
        if gradient is None or not self._active or self._calls.paused:
            return
        key = None
        try:
            key, microbatches, position = described()
            if key.kind != "param_grad" and self._is_other_pass():
                return
            self._recorder.add(
                key,
                gradient if shown is None else shown(gradient),
                placements() if callable(placements) else placements,
                accumulate=True,
                microbatches=microbatches,
                position=position,
            )
        except Exception as error:
            self._recorder.leave_out(key or Key(self._step, None, "grad_output", "*"), error)


class _ParameterHook:
    """Records the raw gradients of one parameter: one object, since a model may have many."""

    __slots__ = ("_hooks", "_layout", "_name", "_turn")

    def __init__(self, hooks: GradientHooks, name: str, layout: ParameterLayout) -> None:
        self._hooks = hooks
        self._name = name
        self._layout = layout
        self._turn = 0

    def __call__(self, gradient: torch.Tensor | None) -> None:
        self._hooks.record(self._described, self._placements, self._layout.shown, gradient)

    def _described(self) -> Described:
        described = self._hooks.parameter_key(self._name, self._turn)
        self._turn += 1
        return described

    def _placements(self) -> Placements:
        # Evaluated late: the graph that decides them exists after the forward only.
        return self._layout.of("param_grad")


def _divided_by(number: Callable[[], int]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda gradient: gradient / number()


def _in(compiled: Mapping[str, nn.Module], owners: Iterable[tuple[str, str]]) -> bool:
    """Whether one of a parameter's owners is compiled, or inside a compiled module."""
    return any(owner in compiled or is_inside_any(owner, compiled) for owner, _ in owners)
