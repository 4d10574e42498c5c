"""Data flow: the manifest's `modules`, read off the autograd graph of one micro-batch.

Every module output is known by its autograd node (`grad_fn`, output number) and by its storage. A
walk back over the graph from a module's inputs, up to known outputs, finds its `inputs`. The same
walk from a container's outputs, before these become known, finds its `computed_from`. A tensor
without a graph is looked up by its storage.

A clock keeps the order of events. A checkpointed segment runs twice. Its first pass has no graph,
so the recomputation supplies its flow; a lookup by storage then considers only tensors that existed
at the first pass, since the storage may have been reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.capture.calls import Run
from ttrace_torch.capture.implementations import implementations_of
from ttrace_torch.capture.operations import add_operation, call_site, merge_operations, operation
from ttrace_torch.capture.values import Value
from ttrace_torch.capture.views import own_base
from ttrace_torch.layout.dtensor import storage_of

# Value name -> clock when it was first seen, which gives the order of the list.
_Sources = dict[str, int]
# Operations on the way to the sources, in order of discovery.
_Via = dict[str, None]


class _Site(NamedTuple):
    """An output seen in a storage."""

    clock: int
    offset: int
    elements: int
    value: str


@dataclass
class _Seen:
    """The facts about one module; sources by call, since a recomputation adds to them."""

    module: nn.Module
    called_at: str | None
    inputs: dict[int, _Sources] = field(default_factory=dict)
    computed_from: dict[int, _Sources] = field(default_factory=dict)
    via: dict[int, _Via] = field(default_factory=dict)
    computed_via: dict[int, _Via] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    container: bool = False

    def all_via(self) -> Iterator[_Via]:
        yield from self.via.values()
        yield from self.computed_via.values()


class DataFlow:
    """Collects the data flow of one micro-batch."""

    def __init__(self) -> None:
        self._clock = 0
        self._last_entered = 0
        self._seen: dict[str, _Seen] = {}
        self._values: _Sources = {}
        self._nodes: dict[tuple[Any, int], str] = {}
        self._storages: dict[int, tuple[StorageWeakRef, list[_Site]]] = {}
        self._unsettled: list[tuple[torch.Tensor, str]] = []
        self._entered: dict[tuple[str, int], int] = {}
        self._left: dict[tuple[str, int], int] = {}
        self._loss: tuple[str, _Sources, _Via] | None = None

    def enter(self, name: str, module: nn.Module, run: Run, inputs: Sequence[torch.Tensor]) -> None:
        """Notes that module `name` is about to run on `inputs`."""
        self._tick()
        if name not in self._seen:
            self._seen[name] = _Seen(module, call_site())
        seen = self._seen[name]
        until = self._first_time(self._entered, name, run)
        self._last_entered = self._clock
        seen.inputs[run.call], seen.via[run.call] = self._sources(inputs, until)

    def leave(
        self,
        name: str,
        run: Run,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[Value],
    ) -> None:
        """Notes that module `name` has returned `outputs`, which are known from now on."""
        self._tick()
        seen = self._seen.get(name)
        if seen is None:
            return
        if not run.recomputed:
            # Another module was entered since, so this one contains it.
            seen.container |= self._last_entered > self._entered[name, run.call]
        # Another call may have had other optional outputs.
        seen.outputs.extend(v.name for v in outputs if v.name not in seen.outputs)
        until = self._first_time(self._left, name, run)
        found, via = self._sources([value.tensor for value in outputs], until)
        seen.computed_from[run.call], seen.computed_via[run.call] = found, via
        for value, tensor, _ in outputs:
            self._know(value, tensor, run)
            base = own_base(tensor, inputs)
            if base is not None:
                self._nodes[base.grad_fn, base.output_nr] = value

    def loss(self, name: str, tensor: torch.Tensor) -> None:
        """Notes the sources of the loss, wherever it was computed."""
        self._tick()
        if self._loss is None:
            self._loss = (name, *self._sources([tensor], self._clock))

    def operations(self) -> set[str]:
        """The operations of all modules, as far as each list of them goes."""
        lists = (via for seen in self._seen.values() for via in seen.all_via())
        return {name for via in lists for name in via}

    def entries(self, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's `modules`, in the order of the modules' first calls."""
        used = self._parameters_used(names)
        found: list[dict[str, Any]] = []
        for name, seen in self._seen.items():
            entry: dict[str, Any] = {"name": name, "class": type(seen.module).__name__}
            op = operation(seen.module)
            if op is not None:
                entry["op"] = op
            if seen.called_at is not None:
                entry["called_at"] = seen.called_at
            if used.get(name):
                entry["params"] = used[name]
            entry["inputs"] = _in_order(*seen.inputs.values())
            _add_operations(entry, "via", seen.via.values())
            if seen.container:
                entry["computed_from"] = _in_order(*seen.computed_from.values())
                _add_operations(entry, "computed_via", seen.computed_via.values())
            if seen.outputs != [name]:
                entry["outputs"] = seen.outputs
            if implementation := implementations_of(seen.module):
                entry["implementation"] = implementation
            found.append(entry)
        if self._loss is not None:
            name, sources, via = self._loss
            entry = {"name": name, "computed_from": _in_order(sources)}
            _add_operations(entry, "computed_via", [via])
            found.append(entry)
        return found

    def release(self) -> None:
        """Drops the references into the graph; the collected flow stays."""
        self._nodes.clear()
        self._storages.clear()
        self._unsettled.clear()

    def _tick(self) -> None:
        self._clock += 1
        # The outputs of a checkpointed segment's first pass get their node when the whole segment
        # returns, that is, once gradients are enabled again.
        waiting = []
        for tensor, value in self._unsettled:
            if tensor.grad_fn is not None:
                self._nodes[tensor.grad_fn, tensor.output_nr] = value
            elif not torch.is_grad_enabled():
                waiting.append((tensor, value))
        self._unsettled = waiting

    def _first_time(self, times: dict[tuple[str, int], int], name: str, run: Run) -> int:
        return times.setdefault((name, run.call), self._clock)

    def _know(self, value: str, tensor: torch.Tensor, run: Run) -> None:
        self._values.setdefault(value, self._clock)
        if tensor.grad_fn is not None:
            self._nodes[tensor.grad_fn, tensor.output_nr] = value
        elif run.in_function:
            self._unsettled.append((tensor, value))
        site = _storage(tensor)
        if site is not None and not run.recomputed:
            reference, offset, elements = site
            known = self._storages.setdefault(reference.cdata, (reference, []))
            known[1].append(_Site(self._clock, offset, elements, value))

    def _sources(self, tensors: Iterable[torch.Tensor], until: int) -> tuple[_Sources, _Via]:
        found: _Sources = {}
        via: _Via = {}
        visited: set[Any] = set()
        stack: list[tuple[Any, int]] = []
        for tensor in tensors:
            if tensor.grad_fn is not None:
                stack.append((tensor.grad_fn, tensor.output_nr))
            else:
                self._find_by_storage(tensor, until, found)
        while stack:
            node, number = stack.pop()
            value = self._nodes.get((node, number))
            if value is not None:
                found[value] = self._values[value]
            elif node not in visited:
                visited.add(node)
                add_operation(node, via)
                variable = getattr(node, "variable", None)
                if isinstance(variable, torch.Tensor):
                    self._find_by_storage(variable, until, found)
                stack.extend(edge for edge in node.next_functions if edge[0] is not None)
        return found, via

    def _find_by_storage(self, tensor: torch.Tensor, until: int, found: _Sources) -> None:
        place = _storage(tensor)
        if place is None:
            return
        reference, offset, elements = place
        sites = [s for s in self._storages.get(reference.cdata, (None, []))[1] if s.clock < until]
        exact = [s for s in sites if (s.offset, s.elements) == (offset, elements)]
        for site in (exact or sites)[-1:]:
            found[site.value] = self._values[site.value]

    def _parameters_used(self, names: ModelNames) -> dict[str, list[str]]:
        """Module -> parameters. The parameters of a module that is never called itself, such as a
        ParameterList, belong to the nearest called module around it."""
        used: dict[str, dict[str, None]] = {}
        for parameter, owners in names.owners.items():
            for owner, _ in owners:
                user = owner
                while user not in self._seen and user != ROOT:
                    user = user.rpartition(".")[0] or ROOT
                used.setdefault(user, {})[parameter] = None
        return {user: list(parameters) for user, parameters in used.items()}


def _add_operations(entry: dict[str, Any], member: str, calls: Iterable[_Via]) -> None:
    operations = merge_operations(calls)
    if operations:
        entry[member] = operations


def _in_order(*calls: _Sources) -> list[str]:
    sources = {value: clock for sources in calls for value, clock in sources.items()}
    return sorted(sources, key=lambda value: (sources[value], value))


def _storage(tensor: torch.Tensor) -> tuple[StorageWeakRef, int, int] | None:
    tensor = storage_of(tensor)
    try:
        # The reference keeps the address from being reused by another storage.
        reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        return reference, int(tensor.storage_offset()), tensor.numel()
    except (NotImplementedError, RuntimeError):
        return None
