"""The formulas of what the optimizers of a run leave, made as its traced steps run.

From the final gradients of a step on, its operations are recorded: those of the optimizers, and of
what follows them, such as an average of the weights. They are formulas over what the trace has of
the step: parameters, main gradients, states and gradient norms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ttrace_torch.base.names import ModelNames
from ttrace_torch.base.process import say
from ttrace_torch.capture.recorder import describe
from ttrace_torch.capture.records import Key
from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.specification.document import cut_of
from ttrace_torch.specification.graph import Value, depends_on_leaves
from ttrace_torch.specification.marks import NUMBER, Mark, Place
from ttrace_torch.specification.recorder import OperationRecorder
from ttrace_torch.specification.slicing import Slicer

# What an update reads, and what it leaves.
_BEFORE = frozenset({"param", "buffer", "optimizer_state", "main_grad", "grad_norm"})
_LEFT = frozenset({"param_after_step", "buffer_after_step"})
# The types of the manifest's optimizers whose rule readers know.
_KNOWN = frozenset({"sgd", "adam", "adamw"})
# The most steps that are followed; readers accept no more.
MOST_STEPS = 16


class Updates:
    """Follows the updates of the traced steps.

    entries: the specification's `updates`, one for each step that was followed.
    scales: kind -> what its recorded tensors of the step must be multiplied by.
    """

    def __init__(self, names: ModelNames) -> None:
        self.entries: list[dict[str, Any]] = []
        self.scales: Mapping[str, float] = {}
        self._names = names
        self._given_up = False
        self.reset()

    @property
    def waits(self) -> bool:
        """Whether the next step is followed, too."""
        return not self._given_up and len(self.entries) < MOST_STEPS

    def reset(self) -> None:
        """Forgets the current step."""
        self.recorder = OperationRecorder()
        self.recorder.paused = True
        # What an optimizer reads as numbers counts, and nothing else.
        self.recorder.inside_model = lambda: self.recorder.of_step
        self._found: dict[Place, Mark] = {}
        # Whether an optimizer made its step by a rule that readers do not know.
        self._followed = False

    def give_up(self, error: Exception) -> None:
        """Follows nothing any more."""
        say(f"specification: updates are not followed: {describe(error)}")
        self._given_up = True
        self.reset()

    def __call__(self, key: Key, tensor: torch.Tensor) -> None:
        """Notes that the trace records `tensor` under `key`."""
        if key.kind not in _BEFORE and key.kind not in _LEFT:
            return
        if tensor.layout != torch.strided or tensor.is_complex():
            return
        recorder = self.recorder
        if key.kind == "main_grad":
            recorder.paused = False
            value = recorder.set_apart(tensor)[0]
            if self.scales.get("main_grad", 1.0) != 1:
                return
        elif key.kind in _LEFT:
            value = recorder.value(tensor)
        else:
            value = recorder.given(tensor)
        self._note(key, value)

    def _note(self, key: Key, value: Value) -> None:
        mark = Mark(value, object(), value.dtype, value.shape)
        self._found.setdefault((key.kind, key.name, key.call), mark)

    def begin(self, settings: Sequence[Mapping[str, Any]], changed: bool) -> None:
        """Notes that an optimizer begins its step.

        settings: the manifest's entries of it.
        changed: whether its gradients were changed in a way that no replay knows.
        """
        if not changed and all(one.get("type") in _KNOWN for one in settings):
            self.recorder.paused = True
            return
        self._followed = True
        self.recorder.paused = False
        # Numbers that it makes and reads are of this very step.
        self.recorder.of_step = True

    def end(self, names: Iterable[str] | None) -> None:
        """Notes that an optimizer has made its step. names: the parameters that it has updated;
        None for all."""
        recorder = self.recorder
        if recorder.paused:
            for name, parameter in self._names.parameters.items():
                if names is None or name in names:
                    recorder.storages.forget(storage_of(parameter))
        recorder.paused, recorder.of_step = False, False

    def finish(self, step: int, settings: Sequence[Mapping[str, Any]]) -> bool:
        """Adds the formulas of the step, which has ended. Returns whether it has any.

        settings: the manifest's entries of its optimizers, as they are now: how gradients were
        clipped is known.
        """
        leaves_state = any(kind == "buffer_after_step" for kind, _, _ in self._found)
        has_formulas = self._followed or leaves_state
        if has_formulas:
            self._note_numbers()
            slicer = Slicer(self.recorder.graph)
            slicer.cut(self._found)
            entry = {"step": step, "settings": [_settings(one) for one in settings]}
            self.entries.append({**entry, **cut_of(slicer)})
        self.reset()
        return has_formulas

    def _note_numbers(self) -> None:
        """Notes the numbers that an optimizer has read and that depend on the run, such as a norm
        as a float: they are constants in its formulas, which say nothing of a run where they are
        others. What it only compares is no number of a formula."""
        graph = self.recorder.graph
        for value, number in self.recorder.numbers_read:
            if value.dtype != "bool" and depends_on_leaves(graph, value.id):
                place = ("scalar", NUMBER, len(self._found))
                self._found[place] = Mark(value, object(), value.dtype, value.shape, number=number)


def _settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The type, the parameters and the numbers of an optimizer's group."""
    numbers = {
        name: value
        for name, value in entry.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name != "step"
    }
    return {"type": entry["type"], "params": list(entry["params"]), "numbers": numbers}
