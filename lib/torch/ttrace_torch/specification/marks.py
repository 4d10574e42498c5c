"""Which values the trace records, under which keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

import torch
from torch import nn

from ttrace_torch.base.names import GRADIENT_FACTOR, ROOT, ModelNames, inner_factor_name, loss_name
from ttrace_torch.capture.loss_factors import inner_factor
from ttrace_torch.capture.operations import call_site
from ttrace_torch.capture.random_draws import DRAW
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.step import version_of
from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.specification.complexes import is_complex, of_real, real_of
from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value, constant_number
from ttrace_torch.specification.inner_factors import multiplied, scaled, terms_of
from ttrace_torch.specification.outside import MOST, MOST_OF_BUFFER, constant_of, elements_of
from ttrace_torch.specification.recorder import OperationRecorder

# The kinds of tensor that a specification lists.
KINDS = frozenset(
    {"param", "buffer", "input", "output", "loss", "grad_output", "param_grad", "scalar", "index"}
)
_OF_STEP = frozenset({"param", "buffer", "param_after_step"})
# The largest relative difference between factors that are one: they are computed in fp32.
SAME = 1e-6

# The name of the numbers that the model reads from tensors; no trace records them.
NUMBER = "(number)"

# Kind, name, call; and the micro-batch, where a step reads those of several.
Place = Union[tuple[str, str, int], tuple[str, str, int, int]]


class Mark(NamedTuple):
    """A tensor that a trace records.

    token: equal for two marks of the same bits.
    factor: set if the tensor is a factor of the script.
    number: the Python number that the model read from the tensor; None for tensors that a trace
        records.
    """

    value: Value
    token: object
    dtype: str
    shape: tuple[int, ...]
    module: dict[str, str] | None = None
    elements: list[Any] | None = None
    factor: Factor | None = None
    number: float | None = None


class Factor(NamedTuple):
    """A factor that a script multiplies a loss by, before or after it is recorded.

    original: its value, as the step computed it.
    numbers: micro-batch -> the number, where the elements are at hand.
    is_scaled: whether recorded factors must be multiplied by the scale of gradients.
    terms: the number of terms of the sum that it divides, if the factor may follow from that
        number, and so from the data; else 0.
    """

    original: Value
    numbers: dict[int, float]
    is_scaled: bool = True
    terms: int = 0


# This many micro-batches rarely divide by the same number by chance.
_FEWEST = 3


def is_of_step(factor: Factor) -> bool:
    """Whether the divisor of a sum of terms belongs to the step: all micro-batches have the same,
    and it is no multiple of the number of terms of each, padding included."""
    numbers = list(factor.numbers.values())
    if len(numbers) < _FEWEST or not all(math.isfinite(n) and n for n in numbers):
        return False
    if any(abs(n - numbers[0]) > SAME * abs(numbers[0]) for n in numbers):
        return False
    multiple = 1 / (numbers[0] * factor.terms)
    return round(multiple) < 1 or abs(multiple - round(multiple)) > SAME * multiple


class Marks:
    """The marked tensors of a step, in the order in which they were met.

    found: those of the first micro-batch, and of the step.
    main_grads: parameter -> value of its final gradient; None if it is not followed.
    raw_grads: parameter -> micro-batch -> values of its gradients, several where a script runs
        backward for parts of a micro-batch.
    several_phases: whether an optimizer made its step before others did.
    """

    def __init__(
        self,
        recorder: OperationRecorder,
        names: ModelNames,
        originals: Mapping[int, torch.Tensor] | None = None,
    ) -> None:
        """originals: id of a fake tensor of the model -> the tensor with the elements."""
        self.found: dict[Place, Mark] = {}
        self.main_grads: dict[str, Value | None] = {}
        self.raw_grads: dict[str, dict[int | None, list[Value]]] = {}
        self.several_microbatches = False
        self.several_phases = False
        # Micro-batch -> its marked tensors, but for the first one.
        self._others: dict[int, dict[Place, Mark]] = {}
        # Micro-batch -> what the model read from tensors there.
        self._numbers_read: dict[int, dict[Place, Mark]] = {}
        # Place -> the numbers of a factor, by micro-batch.
        self._numbers: dict[Place, dict[int, float]] = {}
        # The factor by which the script says it multiplied the gradients after the backward pass.
        self.gradient_factor: float | None = None
        # Kind -> what its recorded tensors must be multiplied by.
        self.scales: Mapping[str, float] = {}
        self._recorder = recorder
        self.names = names
        self._loss = loss_name(names)
        self._originals = originals or {}
        self._microbatch: int | None = None
        # How often each buffer had been changed in place before the step.
        self._versions: dict[Place, int] = {}

    def __call__(
        self, key: Key, tensor: torch.Tensor, accumulate: bool, several: bool = False
    ) -> None:
        """Notes that the trace records `tensor` under `key`.

        accumulate: a second tensor under the same key is added to the first.
        several: the tensor is that of several micro-batches at once.
        """
        self.several_microbatches |= several
        self._take_numbers(key)
        if (key.kind, key.name) == ("scalar", GRADIENT_FACTOR):
            with self._recorder.resting():
                elements = elements_of(tensor)
            self.gradient_factor = float(elements[0]) if elements else None
            return
        if self._recorder.paused and key.kind != "main_grad":
            return
        if key.kind == "main_grad":
            # How sparse and complex gradients add up is not followed; they obey the others' rule.
            followed = tensor.layout == torch.strided and not tensor.is_complex()
            self.main_grads[key.name] = self._recorder.value(tensor) if followed else None
            return
        if key.kind == "param_grad":
            of_name = self.raw_grads.setdefault(key.name, {})
            of_name.setdefault(key.microbatch, []).append(self._recorder.value(tensor))
        place = (key.kind, key.name, key.call)
        if (key.kind, key.name) == ("scalar", inner_factor_name(self._loss)):
            self._mark_inner_factor(place, key, tensor)
            return
        if (key.kind, key.name) == ("grad_output", self._loss):
            self._mark_factor(place, key, tensor)
            return
        found = self._found_in(key)
        if key.kind not in KINDS or found is None:
            return
        if key.kind == "scalar" and key.name.endswith(DRAW):
            # The elements of a random draw are data, however they were drawn.
            self._recorder.set_apart(tensor)
        take = self._recorder.given if key.kind == "param" else self._recorder.value
        value = self._held(tensor, take(tensor))
        module = self._module(key) if key.kind == "output" else None
        mark = Mark(value, self._token(tensor), value.dtype, value.shape, module)
        earlier = found.get(place)
        if earlier is not None:
            if not accumulate:
                return
            del found[place]
            total = self._recorder.make.binary("add", earlier.value, value, value.dtype)
            mark = mark._replace(value=total, token=object())
        found[place] = mark

    def _take_numbers(self, key: Key) -> None:
        """Notes what the model has read since the last mark as numbers of the key's micro-batch."""
        if key.microbatch is None or not self._recorder.numbers_read:
            return
        self._found_in(key)
        numbers = self._numbers_read.setdefault(key.microbatch, {})
        for value, number in self._recorder.numbers_read:
            place = ("scalar", NUMBER, len(numbers))
            numbers[place] = Mark(value, object(), value.dtype, value.shape, number=number)
        self._recorder.numbers_read.clear()

    def read_numbers(self) -> int:
        """How many numbers the model has read from tensors."""
        return sum(len(numbers) for numbers in self._numbers_read.values())

    def opened(self) -> dict[Place, Mark]:
        """The tensors of the first micro-batch and of the step. A size that another micro-batch
        does not have is -1."""
        opened = {**self.found, **self._numbers_read.get(self._microbatch or 0, {})}
        for found in self._others.values():
            for place, mark in opened.items():
                other = found.get(place)
                if other is None or len(other.shape) != len(mark.shape):
                    continue
                sizes = tuple(
                    one if one == two else -1 for one, two in zip(mark.shape, other.shape)
                )
                opened[place] = mark._replace(shape=sizes)
        return opened

    def by_microbatch(self) -> dict[int, dict[Place, Mark]]:
        """The tensors of each micro-batch, without those of the step, the first one first."""
        first = {place: mark for place, mark in self.found.items() if place[0] not in _OF_STEP}
        return {
            number: {**found, **self._numbers_read.get(number, {})}
            for number, found in ((self._microbatch or 0, first), *self._others.items())
        }

    def of_step(self) -> dict[Place, Mark]:
        """The parameters and buffers."""
        return {place: mark for place, mark in self.found.items() if place[0] in _OF_STEP}

    def _mark_factor(self, place: Place, key: Key, tensor: torch.Tensor) -> None:
        """Notes a factor of the script: all that is computed with it depends on it from now on."""
        with self._recorder.resting():
            elements = elements_of(storage_of(tensor))
        before = self._token(tensor)
        leaf, original = self._recorder.set_apart(tensor)
        found = self._found_in(key)
        numbers = self._numbers.setdefault(place, {})
        if found is not None and place not in found:
            token = self._token(tensor)
            # A loss that the model returns has been met as its output.
            names = [p for p, m in found.items() if p[0] == key.kind and m.token is before]
            others = {name: found.pop(name) for name in names}
            factor = Factor(original, numbers)
            found[place] = Mark(leaf, token, leaf.dtype, leaf.shape, factor=factor)
            for name, other in others.items():
                found[name] = other._replace(value=leaf, token=token)
        if elements:
            numbers.setdefault(int(key.microbatch or 0), float(elements[0]))

    def _mark_inner_factor(self, place: Place, key: Key, loss: torch.Tensor) -> None:
        """Notes the factor that a loss was multiplied by before it was recorded. The loss, and the
        gradient of the loss without it, depend on the factor from now on."""
        recorder, graph = self._recorder, self._recorder.graph
        inner, found = inner_factor(loss), self._found_in(key)
        value = recorder.value(loss)
        without = None if inner is None else scaled(recorder.make, value, inner.operations)
        if inner is None or without is None:
            return
        numbers = self._numbers.setdefault(place, {})
        if found is not None and place not in found:
            leaf = graph.leaf("float64", ())
            whole = multiplied(recorder.make, without.base, leaf, value)
            recorder.storages.write(storage_of(loss), whole)
            token = self._token(loss)
            terms = terms_of(graph, without.base)
            factor = Factor(without.factor, numbers, is_scaled=False, terms=terms)
            own = Mark(leaf, object(), leaf.dtype, leaf.shape, factor=factor)
            earlier = dict(found)
            found.clear()
            for name, mark in earlier.items():
                if mark.value == value:
                    # A loss that the model returns has been met as its output.
                    found.setdefault(place, own)
                    mark = mark._replace(value=whole, token=token)
                found[name] = mark
            found.setdefault(place, own)
            arriving = ("grad_output", self._loss, key.call)
            inner.node.register_hook(
                lambda passed, _: self._follow_inner_factor(passed, found.get(arriving), leaf)
            )
        number = constant_number(graph, without.factor.id)
        if number is not None:
            numbers.setdefault(int(key.microbatch or 0), number)

    def _follow_inner_factor(
        self, passed: Sequence[torch.Tensor | None], arriving: Mark | None, factor: Value
    ) -> None:
        """Notes that the gradient behind the loss's factor is the arriving gradient times the
        factor."""
        recorder = self._recorder
        if recorder.paused or arriving is None:
            return
        for gradient in passed:
            if gradient is not None:
                value = recorder.value(gradient)
                whole = multiplied(recorder.make, arriving.value, factor, value)
                recorder.storages.write(storage_of(gradient), whole)

    def buffers(self) -> None:
        """Marks the model's buffers, and knows the elements of its other tensors."""
        for name, module in self.names.modules.items():
            for local, tensor in _tensors_of(module):
                own = local if name == ROOT else f"{name}.{local}"
                is_buffer = local in module._buffers
                self._know(own, tensor, is_buffer)

    def updated(self, names: Iterable[str]) -> None:
        """Notes that an optimizer has given these parameters other values, in the middle of the
        step."""
        self.several_phases = True
        for name in names:
            parameter = self.names.parameters[name]
            storage = storage_of(parameter)
            self._recorder.storages.forget(storage)
            if parameter.grad is not None:
                self._recorder.storages.forget(storage_of(parameter.grad))
            value = self._recorder.given(parameter)
            mark = Mark(value, self._token(parameter), value.dtype, value.shape)
            self.found["param_after_step", name, 0] = mark

    def forget_written_buffers(self) -> None:
        """Forgets the elements of buffers that the step has written, behind its backward too: they
        were the state at its beginning, and the next micro-batch or step finds another state."""
        for name, module in self.names.modules.items():
            for local, tensor in module._buffers.items():
                place = ("buffer", local if name == ROOT else f"{name}.{local}", 0)
                mark = self.found.get(place)
                if mark is None or tensor is None:
                    continue
                written = version_of(tensor) != self._versions.get(place)
                if written or self._held(tensor, self._recorder.value(tensor)) != mark.value:
                    self.found[place] = mark._replace(elements=None)

    def _know(self, name: str, tensor: torch.Tensor, is_buffer: bool) -> None:
        recorder = self._recorder
        known = recorder.storages.read(tensor) is not None
        original = self._originals.get(id(tensor), tensor)
        elements, value = None, None
        with recorder.resting():
            if not known and is_buffer:
                elements = elements_of(original, MOST_OF_BUFFER)
            # A number that a later step may change is no constant, as the bias of a router that
            # begins with zeros; elements can be forgotten.
            varies = elements is not None and tensor.is_floating_point()
            if not known and not tensor.is_complex() and not varies:
                value = constant_of(original, recorder.make, 0 if is_buffer else MOST)
        if value is not None:
            recorder.storages.adopt(tensor, value)
        if is_buffer:
            value = self._held(tensor, recorder.value(tensor))
            mark = Mark(value, self._token(tensor), value.dtype, value.shape)
            self.found["buffer", name, 0] = mark._replace(elements=elements)
            self._versions["buffer", name, 0] = version_of(tensor)

    def _found_in(self, key: Key) -> dict[Place, Mark] | None:
        """The marked tensors that stand with that of a key; None for a number of the step."""
        if key.kind in _OF_STEP:
            return self.found
        if key.microbatch is None:
            return None
        if self._microbatch is None:
            self._microbatch = key.microbatch
        if key.microbatch == self._microbatch:
            return self.found
        return self._others.setdefault(key.microbatch, {})

    def _held(self, tensor: torch.Tensor, value: Value) -> Value:
        """The value that a trace holds of `tensor`, whose value it is. What is computed from a
        complex tensor follows from what the trace holds of it from now on."""
        if not is_complex(value):
            return value
        recorder = self._recorder
        try:
            joined = real_of(recorder.make, value)
        except Inexpressible:
            return value
        shown = of_real(recorder.make, joined)
        if shown != value and not tensor.is_conj():
            recorder.storages.write(storage_of(tensor), shown)
        return joined

    def _token(self, tensor: torch.Tensor) -> object:
        try:
            return self._recorder.storages.token(tensor)
        except (NotImplementedError, RuntimeError):
            return object()

    def _module(self, key: Key) -> dict[str, str] | None:
        module = self.names.modules.get(key.name.split("[")[0])
        if module is None:
            return None
        found = {"class": type(module).__name__}
        site = call_site()
        if site is not None:
            found["called_at"] = site
        return found


def _tensors_of(module: nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
    """Buffers, and tensors that are plain attributes."""
    for local, tensor in [*module._buffers.items(), *vars(module).items()]:
        if isinstance(tensor, torch.Tensor) and not isinstance(tensor, nn.Parameter):
            yield local, tensor
