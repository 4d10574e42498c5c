"""The formulas of what a step leaves to the next one, made as the traced steps of a run pass.

From the final gradients of a step on, its operations are recorded: those of the optimizers, and of
what follows them, such as an average of the weights. They are formulas over what the trace has of
the step: parameters, main gradients, states and gradient norms. Where forwards write buffers of the
model, they are recorded from the beginning, and what the trace has of each micro-batch is read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

import torch

from ttrace_torch.base.names import ModelNames, buffers_of
from ttrace_torch.base.process import say
from ttrace_torch.capture.recorder import describe
from ttrace_torch.capture.records import Key
from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.specification.document import cut_of
from ttrace_torch.specification.graph import Node, Value, depends_on_leaves
from ttrace_torch.specification.marks import NUMBER, Mark, Place
from ttrace_torch.specification.recorder import OperationRecorder
from ttrace_torch.specification.slicing import Slicer

# What an update reads, and what it leaves.
_BEFORE = frozenset({"param", "buffer", "optimizer_state", "main_grad", "grad_norm"})
_LEFT = frozenset({"param_after_step", "buffer_after_step"})
# What a buffer that a forward writes follows from.
_OF_FORWARD = frozenset({"input", "output", "loss", "scalar", "index"})
# The types of the manifest's optimizers whose rule readers know.
_KNOWN = frozenset({"sgd", "adam", "adamw"})
# A norm of gradients that the trace lacks is taken from the recorded gradients, where a job adds
# their squares in an order and precision of its own: it is right to the rounding of float16, and
# to that of bfloat16 where there are many squares, or gradients of a narrow type.
_MANY_SQUARES = 1 << 20
# The most steps that are followed; readers accept no more.
MOST_STEPS = 16


class Updates:
    """Follows the updates of the traced steps.

    entries: the specification's `updates`, one for each step that was followed.
    scales: kind -> what its recorded tensors of the step must be multiplied by.
    running: whether a module of the model is running.
    """

    def __init__(self, names: ModelNames) -> None:
        self.entries: list[dict[str, Any]] = []
        self.scales: Mapping[str, float] = {}
        self._names = names
        self._given_up = False
        # Whether the rules that readers know are followed, too, for what a job writes by hand: not
        # if the first step has shown none, since it costs milliseconds a parameter.
        self._follows_known = True
        # The parameters that got a gradient in the first step that was followed.
        self._trained: frozenset[str] | None = None
        self.running: Callable[[], bool] = lambda: False
        # Whether something follows from what runs before the final gradients: buffers from forwards
        # of the model, parameters that no optimizer trains from others. They may, until a step
        # shows that not.
        self._from_begin = any(True for m in names.modules.values() for _ in buffers_of(m)) or any(
            not one.requires_grad for one in names.parameters.values()
        )
        self.reset()

    @property
    def waits(self) -> bool:
        """Whether the next step is followed, too."""
        return not self._given_up and len(self.entries) < MOST_STEPS

    def reset(self) -> None:
        """Forgets the current step."""
        self.recorder = OperationRecorder()
        self.recorder.paused = not self._from_begin
        # What an optimizer or the model reads as numbers counts, and nothing else.
        self.recorder.inside_model = lambda: (
            self.recorder.of_step or (self._from_begin and self.running())
        )
        self._found: dict[Place, Mark] = {}
        self._with_gradient: set[str] = set()
        # The old bits of parameters that are frozen as the step begins, and those that stay so.
        self._at_rest: dict[str, torch.Tensor] = {}
        self._unmoved: set[str] = set()
        # The old bits of buffers: some kernels write without a word.
        self._before: dict[str, torch.Tensor] = {}
        # Whether an optimizer made its step by a rule that readers do not know.
        self._followed = False
        # Whether the one that makes its step now has a rule that they know.
        self._is_known = False
        # What such a one has left in a parameter: a leaf, and the value that it stands for.
        self._set_apart: dict[str, tuple[Value, Value]] = {}

    def give_up(self, error: Exception) -> None:
        """Follows nothing any more."""
        say(f"specification: updates are not followed: {describe(error)}")
        self._given_up = True
        self.reset()

    def __call__(self, key: Key, tensor: torch.Tensor) -> None:
        """Notes that the trace records `tensor` under `key`."""
        of_forward = self._from_begin and key.kind in _OF_FORWARD and key.microbatch is not None
        if key.kind not in _BEFORE and key.kind not in _LEFT and not of_forward:
            return
        self._follow_frozen(key, tensor)
        if tensor.layout != torch.strided or tensor.is_complex():
            return
        recorder = self.recorder
        if of_forward:
            value = recorder.value(tensor)
        elif key.kind == "main_grad":
            recorder.paused = False
            value = recorder.set_apart(tensor)[0]
            if self.scales.get("main_grad", 1.0) != 1:
                return
        elif key.kind in _LEFT:
            value = self._left(key, tensor)
        else:
            value = recorder.given(tensor)
            if key.kind == "buffer" and self._from_begin:
                self._before[key.name] = tensor.detach().clone()
        self._note(key, value)

    def _left(self, key: Key, tensor: torch.Tensor) -> Value:
        """The value that a step leaves in a tensor."""
        recorder = self.recorder
        value = recorder.value(tensor)
        before = self._found.get(("buffer", key.name, key.call))
        if key.kind != "buffer_after_step" or before is None or before.value != value:
            return value
        old = self._before.get(key.name)
        with recorder.resting():
            same = old is not None and torch.equal(old, tensor)
        if same:
            return value
        return recorder.graph.opaque("a write that nothing tells", [], value.dtype, value.shape)

    def _note(self, key: Key, value: Value) -> None:
        mark = Mark(value, object(), value.dtype, value.shape)
        place: Place = (key.kind, key.name, key.call)
        if key.microbatch is not None:
            place = (*place, key.microbatch)
        noted = self._found.get(place)
        if noted is None or (key.kind == "grad_norm" and noted.value == value):
            self._found[place] = mark

    def note_norm(self, name: str, norm: torch.Tensor) -> None:
        """Notes the norm that gradients are about to be clipped by. The trace has it only if the
        job tells it."""
        leaf = self.recorder.set_apart(norm)[0]
        elements = sum(one.numel() for one in self._names.parameters.values())
        is_sharp = leaf.dtype in ("float32", "float64") and elements <= _MANY_SQUARES
        dtype = "float16" if is_sharp else "bfloat16"
        self._found["grad_norm", name, 0] = Mark(leaf, object(), dtype, leaf.shape)

    def begin(
        self, settings: Sequence[Mapping[str, Any]], changed: bool, rewritten: Iterable[str]
    ) -> None:
        """Notes that an optimizer begins its step.

        settings: the manifest's entries of it.
        changed: whether its gradients were changed in a way that no replay knows.
        rewritten: the parameters that are not what they were when the step began.
        """
        if not self._from_begin:
            for name in rewritten:  # nobody saw by what
                self.recorder.storages.forget(storage_of(self._names.parameters[name]))
        self._is_known = not changed and all(one.get("type") in _KNOWN for one in settings)
        self._followed |= not self._is_known
        self.recorder.paused = self._is_known and not self._follows_known
        # Numbers that it makes and reads are of this very step.
        self.recorder.of_step = True

    def end(self, names: Iterable[str] | None) -> None:
        """Notes that an optimizer has made its step. names: the parameters that it has updated;
        None for all."""
        recorder = self.recorder
        recorder.paused, recorder.of_step = False, False
        if not self._is_known:
            return
        for name, parameter in self._names.parameters.items():
            if names is not None and name not in names:
                continue
            if not self._follows_known:
                recorder.storages.forget(storage_of(parameter))
                continue
            try:
                self._set_apart[name] = recorder.set_apart(parameter)
            except (NotImplementedError, RuntimeError):
                continue  # nothing is known of a tensor without storage

    def finish(
        self, step: int, settings: Sequence[Mapping[str, Any]], rewritten: Sequence[str]
    ) -> bool:
        """Adds the settings and formulas of the step, which has ended. Returns whether it has any.

        settings: the manifest's entries of its optimizers, as they are now: how gradients were
            clipped is known.
        rewritten: the parameters that the step has changed by hand.
        """
        leaves_state = any(place[0] == "buffer_after_step" for place in self._found)
        has_formulas = self._followed or leaves_state or bool(rewritten)
        entry = {"step": step, "settings": [_settings(one) for one in settings]}
        if frozen := self._frozen():
            entry["frozen"] = frozen
        if rewritten:
            entry["rewritten"] = list(rewritten)
            self._join(rewritten)
        slicer = Slicer(self.recorder.graph)
        if has_formulas:
            self._note_numbers()
            slicer.cut(self._found)
        if has_formulas or settings:
            self.entries.append({**entry, **cut_of(slicer)})
        self._follows_known &= bool(rewritten)
        by_hand = set(rewritten) - self._with_gradient
        self._from_begin &= bool(by_hand) or any(len(t.place) > 3 for t in slicer.tensors)
        self.reset()
        return has_formulas or bool(settings)

    def _follow_frozen(self, key: Key, tensor: torch.Tensor) -> None:
        """Notes which parameters get a gradient, and which are frozen and stay as they are."""
        name = key.name
        if key.kind == "main_grad":
            self._with_gradient.add(name)
        elif key.kind == "param" and name in (self._trained or ()):
            if not self._names.parameters[name].requires_grad:
                self._at_rest[name] = tensor.detach().clone()
        elif key.kind == "param_after_step" and name in self._at_rest:
            with self.recorder.resting():
                if torch.equal(self._at_rest.pop(name), tensor.detach()):
                    self._unmoved.add(name)

    def _frozen(self) -> list[str]:
        """The parameters that the first step trained, and that this one froze."""
        if self._trained is None:
            self._trained = frozenset(self._with_gradient)
        return sorted(self._unmoved - self._with_gradient)

    def _join(self, names: Iterable[str]) -> None:
        """Lets what was made of the updates of these parameters follow from what the optimizer
        read: the trace has no tensor in between."""
        graph = self.recorder.graph
        for leaf, value in (self._set_apart[name] for name in names if name in self._set_apart):
            graph.nodes[leaf.id] = Node("cast", (value.id,), (), leaf.dtype, leaf.shape)

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
