"""Which value each tensor holds, through views and operations in place.

A tensor is known by its storage and its place in it (dtype, sizes, strides, offset), not by its
Python object: autograd makes new objects of saved tensors. Every write into a storage is a new
generation. A view of an older generation is cut anew from its base.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ttrace_torch.base import dtypes
from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.strides import Step, by_stride, is_contiguous, strided_steps

Geometry = tuple[Any, tuple[int, ...], tuple[int, ...], int]


@dataclass
class _View:
    value: Value
    generation: int
    parent: Geometry | None = None
    steps: tuple[Step, ...] = ()


@dataclass
class _Storage:
    """One storage; the reference keeps its address from being used again.

    token: changes with the bits. Copies share it.
    """

    reference: StorageWeakRef
    base: Geometry
    token: object
    generation: int = 0
    views: dict[Geometry, _View] = field(default_factory=dict)


def apply(make: Expressions, steps: tuple[Step, ...], value: Value) -> Value:
    """The view of a value."""
    for step in steps:
        value = _applied(make, step, value)
    return value


class Storages:
    """The values of all tensors."""

    def __init__(self, make: Expressions) -> None:
        self._make = make
        self._known: dict[int, _Storage] = {}
        # The leaves that stand for those parts of a storage that no tensor has shown yet.
        self._rests: set[int] = set()

    def read(self, tensor: torch.Tensor) -> Value | None:
        """The value that `tensor` holds now; None if nothing is known about it."""
        storage = self._known.get(_address(tensor))
        if storage is None:
            return None
        place = _geometry(tensor)
        if place not in storage.views:
            view = self._cut(storage, tensor, place)
            if view is None:
                return None
            storage.views[place] = view
        return self._current(storage, place)

    def token(self, tensor: torch.Tensor) -> object:
        """Equal for two tensors that hold the same bits because one is a copy or view of the
        other."""
        storage = self._known.get(_address(tensor))
        return None if storage is None else storage.token

    def same_storage(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether two tensors share their storage."""
        return _address(one) == _address(other)

    def adopt(self, tensor: torch.Tensor, value: Value, token: object = None) -> None:
        """Notes that `tensor`, whose storage is new, holds `value`."""
        place = _geometry(tensor)
        reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        storage = _Storage(reference, place, token if token is not None else object())
        storage.views[place] = _View(value, 0)
        self._known[_address(tensor)] = storage

    def forget(self, tensor: torch.Tensor) -> None:
        """Forgets the values of the tensor and of all others in its storage."""
        try:
            self._known.pop(_address(tensor), None)
        except (NotImplementedError, RuntimeError):
            return  # it has no storage, so nothing was known

    def add_view(
        self, tensor: torch.Tensor, source: torch.Tensor, steps: tuple[Step, ...] | None
    ) -> None:
        """Notes that `tensor` is a view of `source`, which is known."""
        storage = self._known[_address(source)]
        place, parent = _geometry(tensor), _geometry(source)
        if place in storage.views:
            return
        value = apply(self._make, steps or (), self._current(storage, parent))
        storage.views[place] = _View(value, storage.generation, parent, steps or ())

    def add_part(self, tensor: torch.Tensor, value: Value) -> None:
        """Notes the value of a tensor that is not known; its storage may be known."""
        storage = self._known.get(_address(tensor))
        if storage is None:
            self.adopt(tensor, value)
            return
        place = _geometry(tensor)
        if self._make_whole(storage, tensor):
            base = storage.views[storage.base]
            steps = strided_steps(storage.base[1], place[1], place[2], place[3])
            written = None if steps is None else self._put_back(steps, base.value, value)
            if written is not None:
                base.value = written
                if place != storage.base:  # which is no view, least of all of itself
                    view = _View(value, storage.generation, storage.base, steps or ())
                    storage.views[place] = view
                return
        storage.views[place] = _View(value, storage.generation)

    def _make_whole(self, storage: _Storage, tensor: torch.Tensor) -> bool:
        """Makes the whole storage its base, in one dimension. False if it has no such form."""
        dtype = tensor.dtype
        count = int(tensor.untyped_storage().nbytes()) // tensor.element_size()
        whole: Geometry = (dtype, (count,), (1,), 0)
        if storage.base == whole:
            return True
        if storage.base[0] != dtype:
            return False
        old = storage.views[storage.base]
        steps = strided_steps((count,), *storage.base[1:])
        if steps is None:
            return False
        value = self._make.graph.leaf(old.value.dtype, (count,))
        self._rests.add(value.id)
        written = self._put_back(steps, value, self._current(storage, storage.base))
        if written is None:
            return False
        storage.views[whole] = _View(written, storage.generation)
        old.parent, old.steps = whole, steps
        storage.base = whole
        return True

    def note(self, tensor: torch.Tensor, value: Value) -> None:
        """Notes the value of a tensor that shares a known storage in a way that is not known."""
        storage, place = self._known[_address(tensor)], _geometry(tensor)
        storage.views.setdefault(place, _View(value, storage.generation))

    def write(self, tensor: torch.Tensor, value: Value, token: object = None) -> None:
        """Notes that `tensor` was overwritten with `value`."""
        storage = self._known.get(_address(tensor))
        if storage is None:
            self.adopt(tensor, value, token)
            return
        place = _geometry(tensor)
        if self.read(tensor) is None:
            # The written part was not known, so nothing of the storage is known now.
            self._forget(storage, value)
            return
        # From the view up to the base, each with the written part in its place.
        chain = [(place, value)]
        while storage.views[place].parent is not None:
            view = storage.views[place]
            parent: Geometry = view.parent  # type: ignore[assignment]
            written = self._put_back(view.steps, self._current(storage, parent), value)
            if written is None:
                self._forget(storage, value)
                storage.views[chain[0][0]].value = chain[0][1]
                storage.views[chain[0][0]].generation = storage.generation
                return
            place, value = parent, written
            chain.append((place, value))
        if place != storage.base:
            # The view was not cut from the base, so the written part cannot be put back into the
            # base.
            self._forget_around(storage, place, value)
        storage.generation += 1
        storage.token = token if token is not None and len(chain) == 1 else object()
        for where, written in chain:
            storage.views[where].value = written
            storage.views[where].generation = storage.generation

    def _forget(self, storage: _Storage, value: Value) -> None:
        storage.generation += 1
        storage.token = object()
        for view in storage.views.values():
            old = view.value
            view.value = self._make.graph.opaque("write into a view", [value], *old[1:])
            view.generation, view.parent = storage.generation, None

    def _forget_around(self, storage: _Storage, place: Geometry, value: Value) -> None:
        """Forgets the values of other views that may show elements written at `place`."""
        for other, view in storage.views.items():
            if other != place and view.parent is None and _may_overlap(other, place):
                old = view.value
                view.value = self._make.graph.opaque("write into a view", [value], *old[1:])

    def _current(self, storage: _Storage, place: Geometry) -> Value:
        view = storage.views[place]
        if view.generation < storage.generation and view.parent is not None:
            view.value = apply(self._make, view.steps, self._current(storage, view.parent))
        view.generation = storage.generation
        return view.value

    def _put_back(self, steps: tuple[Step, ...], source: Value, value: Value) -> Value | None:
        """`source` with its view by `steps` replaced by `value`."""
        before = [source]
        for step in steps:
            before.append(_applied(self._make, step, before[-1]))
        for step, whole in zip(reversed(steps), reversed(before[:-1])):
            if step.primitive == "reshape":
                value = self._make.reshape(value, whole.shape)
            elif step.primitive == "permute":
                back = sorted(range(len(step.where)), key=step.where.__getitem__)
                value = self._make.permute(value, back)
            elif step.primitive == "slice":
                value = self._make.replace(whole, value, *step.where)
            elif step.primitive == "gather" or whole.shape != value.shape:
                return None
        return value

    def _cut(self, storage: _Storage, tensor: torch.Tensor, place: Geometry) -> _View | None:
        """A view of a known storage that no operation made: autograd cuts some itself."""
        base, (dtype, size, stride, offset) = storage.base, storage.base
        order = by_stride(size, stride)
        sizes = tuple(size[dim] for dim in order)
        if place[0] != dtype or not is_contiguous(sizes, tuple(stride[dim] for dim in order)):
            return None
        steps = strided_steps(sizes, place[1], place[2], place[3] - offset)
        if steps is None:
            return None
        if order != sorted(order):
            steps = (Step("permute", sizes, tuple(order)), *steps)
        value = apply(self._make, steps, self._current(storage, base))
        if self._is_rest(value):
            return None
        return _View(value, storage.generation, base, steps)

    def _is_rest(self, value: Value) -> bool:
        number = value.id
        while number not in self._rests:
            node = self._make.graph.nodes[number]
            if node.primitive not in ("reshape", "permute", "slice"):
                return False
            number = node.arguments[0]
        return True


def _applied(make: Expressions, step: Step, value: Value) -> Value:
    if step.primitive == "reshape":
        return make.reshape(value, step.shape)
    if step.primitive == "permute":
        return make.permute(value, step.where)
    if step.primitive == "expand":
        return make.expand(value, step.shape)
    if step.primitive == "gather":
        return make.strided(value, step.shape, step.where[1:], step.where[0])
    return make.slice(value, *step.where)


def dtype_name(dtype: torch.dtype) -> str:
    """Name of a dtype in the format; torch's own where the format has none."""
    known = dtypes.DTYPES.get(dtype)
    return str(dtype).rpartition(".")[2] if known is None else known.name


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """The sizes of a tensor; -1 for one that depends on data."""
    return tuple(map(_known_size, tensor.shape))


def _known_size(size: Any) -> int:
    if isinstance(size, int):
        return size
    node = getattr(size, "node", None)
    hint = getattr(node, "hint", None) if node is not None else None
    constant = node.maybe_as_int() if node is not None else None
    found = constant if constant is not None else hint
    return -1 if found is None else int(found)


def _geometry(tensor: torch.Tensor) -> Geometry:
    strides = tuple(map(_known_size, tensor.stride()))
    return tensor.dtype, shape_of(tensor), strides, _known_size(tensor.storage_offset())


def _address(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _may_overlap(one: Geometry, other: Geometry) -> bool:
    """Whether two places of a storage may have an element in common."""
    if one[0] != other[0]:
        return True
    (first, last), (start, stop) = _range(one), _range(other)
    return first <= stop and start <= last


def _range(place: Geometry) -> tuple[int, int]:
    """The first and the last element of a place."""
    _, size, stride, offset = place
    return offset, offset + sum((n - 1) * step for n, step in zip(size, stride))
