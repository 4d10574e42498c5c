"""Gradients: tensor hooks on module outputs and on parameters, for one step.

Never full backward hooks: those wrap a module's inputs and outputs and change how in-place
operations behave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional

import torch
from torch import nn

from ttrace_torch.base.microbatch import Batch, MicroBatches, number_of
from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.capture.calls import CallCounter
from ttrace_torch.capture.recorder import Key, Recorder
from ttrace_torch.capture.views import ViewOf
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.dtensor import is_dtensor
from ttrace_torch.layout.placements import Placements

Hook = Callable[[torch.Tensor], None]


def follow_unsharded_params(names: ModelNames, hooks: Mapping[str, Hook]) -> list[Any]:
    """Puts `hooks` (canonical parameter name -> hook) on what stands in for the parameters.

    Returns a handle with `remove()`, or none where no parameter is a DTensor. The stand-ins are
    looked for whenever a module begins to run that holds the parameter, or a module inside it
    does: a parent may use its child's weight.
    """
    found = _UnshardedParams()
    for name, hook in hooks.items():
        if is_dtensor(names.parameters[name]):
            for module, local in names.owners[name]:
                found.watch(names, module, local, name, hook)
    return [found] if found.handles else []


class _UnshardedParams:
    """The forward pre-hooks that look for stand-ins, and the hooks on those that they found."""

    def __init__(self) -> None:
        self.handles: list[Any] = []
        self._known: set[int] = set()

    def watch(self, names: ModelNames, owner: str, local: str, name: str, hook: Hook) -> None:
        """Looks for what stands in for parameter `name`, which `owner` calls `local`."""
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
        """Takes all hooks off."""
        for handle in self.handles:
            handle.remove()


def _and_those_around(modules: Mapping[str, nn.Module], name: str) -> list[nn.Module]:
    """The module called `name`, and those that contain it."""
    parts = [] if name == ROOT else name.split(".")
    paths = [".".join(parts[:length]) or ROOT for length in range(len(parts) + 1)]
    return [modules[path] for path in paths if path in modules]


# A gradient's key, what it is of several micro-batches, and the position of its value.
Described = tuple[Key, Optional[dict[str, Any]], Optional[int]]


class GradientHooks:
    """Tensor hooks of one step. Silent once removed, even where a tensor outlives the step."""

    def __init__(self, step: int, recorder: Recorder, calls: CallCounter) -> None:
        self._step = step
        self._recorder = recorder
        self._calls = calls
        self._active = True
        self._handles: list[Any] = []
        # Parameter, turn -> micro-batch, where the parameter's n-th backward tells it better than
        # the micro-batch at hand; None where it does not.
        self.backward_batch: Callable[[str, int], Batch | None] | None = None
        # Whether the backward under way passes outputs a second time.
        self.repeats_outputs: Callable[[], bool] | None = None

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
        """Records the gradient of a module's output when it is known, under `key`.

        Where several backwards pass the same tensor, their gradients add up.
        base: what the output is a view of; tells the gradient should the view be overwritten.
        microbatches: what the gradient is of theirs, for an output of several micro-batches.
        shown: makes what is recorded of the gradient.
        position: the output's number, where its name does not tell it.
        """
        if not tensor.requires_grad or not self._recorder.wants(key.kind):
            return
        record = self._hook(lambda: (key, microbatches, position), placements, shown)
        if base is not None:
            record = self._hook_with_base(record, ViewOf(tensor, base), base)
        handle = tensor.register_hook(record)  # type: ignore[no-untyped-call]
        if tensor.is_leaf:
            # Other tensors die with the graph, a leaf and its hooks do not.
            self._handles.append(handle)

    def follow_parameters(self, names: ModelNames, selected: set[str], layout: Assignment) -> None:
        """Records every parameter's raw gradient, as each micro-batch's backward leaves it.

        A parameter sharded by FSDP has none itself: the whole one that stands in for it while its
        module runs has, on each rank that of its own micro-batch.
        """
        if not self._recorder.wants("param_grad"):
            return
        hooks = {}
        for name, parameter in names.parameters.items():
            if name in selected and parameter.requires_grad:
                placements = layout.parameters[name].of("param_grad")
                hooks[name] = self._hook(self._parameter_key(name), placements)
                handle = parameter.register_hook(hooks[name])  # type: ignore[no-untyped-call]
                self._handles.append(handle)
        self._handles.extend(follow_unsharded_params(names, hooks))

    def remove(self) -> None:
        """Takes the hooks off and stops listening."""
        self._active = False
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _hook_with_base(self, record: Hook, place: ViewOf, base: torch.Tensor) -> Hook:
        """The view's hook. The base's, which fires after it, stands in where it did not fire."""
        told = False

        def from_view(gradient: torch.Tensor) -> None:
            nonlocal told
            told = True
            record(gradient)

        def from_base(gradient: torch.Tensor) -> None:
            nonlocal told
            if not told:
                record(place.of(gradient))
            told = False

        base.register_hook(from_base)  # type: ignore[no-untyped-call]
        return from_view

    def _parameter_key(self, name: str) -> Callable[[], Described]:
        turn = 0

        def described() -> Described:
            nonlocal turn
            batch = self._calls.microbatch
            if self.backward_batch is not None:
                told = self.backward_batch(name, turn)
                batch = batch if told is None else told
            turn += 1
            key = Key(self._step, number_of(batch), "param_grad", name)
            together = batch.entry("sum", 0, str(key)) if isinstance(batch, MicroBatches) else None
            return key, together, None

        return described

    def _hook(
        self,
        described: Callable[[], Described],
        placements: Placements,
        shown: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> Hook:
        def record(gradient: torch.Tensor) -> None:
            if self._active and not self._calls.paused:
                key, microbatches, position = described()
                if key.kind != "param_grad" and self.repeats_outputs and self.repeats_outputs():
                    return
                gradient = gradient if shown is None else shown(gradient)
                self._recorder.add(
                    key,
                    gradient,
                    placements,
                    accumulate=True,
                    microbatches=microbatches,
                    position=position,
                )

        return record
