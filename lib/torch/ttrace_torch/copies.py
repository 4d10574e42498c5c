"""Finds copies of the model that live beside it: averages of its weights, target networks.

No optimizer holds them and no hook sees them, so they are looked for among all objects. A copy is a
module outside the model whose parameters have the names and shapes of the model's and no gradients;
or an object that has the shadows of all trained parameters in a list.
"""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, Callable, Union

import torch
from torch import nn

from ttrace_torch.base.names import ModelNames, buffers_of, canonical
from ttrace_torch.base.problems import Problems
from ttrace_torch.capture.step import version_of
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.dtensor import storage_of

# AveragedModel of torch, ModelEmaV3 of timm, EMAModel of diffusers, ExponentialMovingAverage.
_AVERAGE = re.compile(r"[Aa]verag|(?<![A-Z])E(MA|ma)(?![a-z])|^ema(?![a-z])")
# Where an average that is no module has its tensors: torch_ema, diffusers.
_SHADOWS = "shadow_params"
# Bytes of old values that are kept of a copy that may move.
_MOST_KEPT = 2**30

Tensors = Mapping[str, torch.Tensor]
Source = Union[nn.Module, Tensors, Callable[[], Tensors]]


@dataclass(frozen=True)
class Copy:
    """holder: the module, or the object that has the list. source: the module, or a function that
    returns the tensors by the names of parameters. is_average: whether its type says so."""

    holder: Any
    source: Source
    is_average: bool

    @property
    def type(self) -> str:
        """The name of the holder's type."""
        return type(self.holder).__name__

    def tensors(self) -> list[torch.Tensor]:
        """Those that have the names of parameters."""
        found: Any = self.source
        return list(found.parameters() if isinstance(found, nn.Module) else found().values())

    def has_gradients(self) -> bool:
        """Whether it is trained itself."""
        return any(one.grad is not None for one in self.tensors())

    def versions(self) -> list[tuple[int, int]]:
        """Other ones after its tensors have been written."""
        return [(id(one), version_of(storage_of(one))) for one in self.tensors()]


class CopiesOfModel:
    """The averages and other copies of a model that the user has not named, step by step.

    A copy that is no average, or one of several averages, is recorded if it moves in a traced step:
    another run in this process may have left it, and a frozen copy is no state.
    """

    def __init__(self, names: ModelNames, problems: Problems) -> None:
        self._names = names
        self._problems = problems
        self._used: dict[str, Copy] = {}
        # Those that have not moved, and how often each had been written when the step began.
        self._others: list[tuple[Copy, list[tuple[int, int]]]] = []
        self._moving: list[Callable[[], Any]] = []  # holders of what a step has moved
        self._holders: list[Callable[[], Any]] = []  # of the copies that were found last
        self._kept: dict[str, torch.Tensor] = {}
        self._names_taken: frozenset[str] = frozenset()

    def begin(self, named: Mapping[str, Source]) -> dict[str, Source]:
        """Returns those to record as a step begins, by name. named: what the user has named."""
        known: set[int] = set()
        for source in named.values():
            with suppress(Exception):  # recording says what is wrong with it
                known.update(id(tensor) for _, tensor in tensors_of(source))
        found = self._look(known)
        averages = [one for one in found if one.is_average]
        sure = averages if len(averages) == 1 else []
        self._used = {}
        self._names_taken = frozenset(named)
        self._take([*sure, *(one for one in found if _is_among(one.holder, self._moving))])
        used = [id(one) for one in self._used.values()]
        self._others = [(one, one.versions()) for one in found if id(one) not in used]
        return {name: one.source for name, one in self._used.items()}

    def _look(self, known: Set[int]) -> list[Copy]:
        """The copies among all objects.

        An earlier run in this process may have left one that nobody holds any more. A single one
        that is no average does no harm, since it never moves. Otherwise what is new has to outlive
        a collection.
        """
        owned = list(self._names.modules.values())
        found = _copies(self._names.parameters, owned, known)
        new = [one for one in found if not _is_among(one.holder, self._holders)]
        if any(one.is_average for one in new) or (new and len(found) > 1):
            del found, new
            gc.collect()
            found = _copies(self._names.parameters, owned, known)
        self._holders = [_weak(one.holder) for one in found]
        return found

    def may_move(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors of the one other copy, and the names that they get if this step moves it;
        none if their old values are too large to keep. They are kept."""
        self._kept = {}
        if len(self._others) != 1:
            return
        copy = self._others[0][0]
        if sum(one.numel() * one.element_size() for one in copy.tensors()) > _MOST_KEPT:
            return
        for local, tensor in tensors_of(copy.source):
            name = f"{_kind_of(copy)}.{local}"
            self._kept[name] = tensor.detach().clone()
            yield name, tensor

    def end(self) -> tuple[dict[str, Source], dict[str, torch.Tensor]]:
        """Returns those to record as the step ends, and the old values, by name, of what it is the
        first to move."""
        moved = [
            one
            for one, versions in self._others
            if one.versions() != versions and not one.has_gradients()
        ]
        self._moving += [_weak(one.holder) for one in moved]
        before = len(self._used)
        self._take(moved)
        found = {name: one.source for name, one in self._used.items()}
        kept = self._kept if len(self._used) > before else {}
        self._used, self._others, self._kept = {}, [], {}
        return found, kept

    def _take(self, copies: Sequence[Copy]) -> None:
        """Takes copies under the names of their kinds. Two of a kind could be exchanged for each
        other in another run."""
        for name in ("average", "copy"):
            alike = {id(one): one for one in copies if _kind_of(one) == name}
            if not alike:
                continue
            one, *others = alike.values()
            if not others and name not in self._names_taken and name not in self._used:
                self._used[name] = one
                self._problems.advise(
                    f"the {name} of the model that is kept beside it ({one.type}) is recorded as "
                    f"{name}.*; say tracer.state(name, it) for another name"
                )
            else:
                self._problems.advise(
                    f"a copy of the model ({one.type}) that is kept beside it is not recorded, "
                    f"since another one is called {name}; say tracer.state(name, copy) of each"
                )


def _kind_of(copy: Copy) -> str:
    return "average" if copy.is_average else "copy"


def tensors_of(source: Source) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters and persistent buffers of a module, or the tensors of a dictionary, by name.

    Throws TraceError for anything else. Calls no `state_dict`, which may communicate.
    """
    found: Any = source
    if isinstance(found, nn.Module):
        for path, parameter in found.named_parameters():  # a tied one once
            yield canonical(path), parameter
        for path, part in found.named_modules():
            for local, tensor in buffers_of(part):
                yield canonical(f"{path}.{local}" if path else local), tensor
        return
    if callable(found):
        found = found()
    if not isinstance(found, Mapping):
        kind = type(found).__name__
        raise TraceError(f"tracer.state takes a module, or tensors by their names, not {kind}")
    for name, tensor in found.items():
        if isinstance(tensor, torch.Tensor):
            yield str(name), tensor


def _copies(
    parameters: Mapping[str, torch.Tensor],
    owned: Iterable[nn.Module],
    known: Set[int],
) -> list[Copy]:
    """The copies of a model.

    parameters: the model's, by canonical name. owned: its modules. known: ids of tensors that are
    recorded already.
    """
    taken = {id(one) for one in parameters.values()} | known
    inside = {id(module) for module in owned}
    found = []
    for thing in _candidates():
        if id(thing) in inside:
            continue
        try:
            copy = _copy_in(thing, parameters)
            if copy is None or copy.has_gradients():
                continue
            if not any(id(one) in taken for one in copy.tensors()):
                found.append(copy)
        except Exception:  # of a stranger's object, which may be half made
            continue
    return _outermost(found)


def _candidates() -> list[Any]:
    """All modules, and all objects whose type is called an average.

    This takes a tenth of a second or two, for reaching every object in memory: so it looks at the
    types first, and then at objects of those types alone. It asks no object what it is, which may
    run code of its own.
    """
    things = gc.get_objects()
    types = list(map(type, things))
    kinds = {kind for kind in set(types) if issubclass(kind, nn.Module) or _is_average(kind)}
    # No comprehension over `things`: its variable would be among them, and keep all of them alive.
    numbers = compress(range(len(things)), map(kinds.__contains__, types))
    return list(map(things.__getitem__, numbers))


def _is_among(thing: Any, held: Iterable[Callable[[], Any]]) -> bool:
    return any(thing is one() for one in held)


def _weak(thing: Any) -> Callable[[], Any]:
    """A function that returns it as long as somebody else holds it."""
    try:
        return weakref.ref(thing)
    except TypeError:  # it has slots, and none for this
        return lambda: thing


def _is_average(kind: type) -> bool:
    return bool(_AVERAGE.search(kind.__name__))


def _copy_in(thing: Any, parameters: Mapping[str, torch.Tensor]) -> Copy | None:
    kind = type(thing)
    if issubclass(kind, nn.Module):
        count = 0
        for path, one in thing.named_parameters():
            counterpart = parameters.get(canonical(path))
            if counterpart is None or counterpart.shape != one.shape:
                return None
            count += 1
        is_whole = count == len(parameters) > 0
        return Copy(thing, thing, _is_average(kind)) if is_whole else None
    shadows = vars(thing).get(_SHADOWS)
    if not shadows or not isinstance(shadows, (list, tuple)):
        return None
    shapes = [one.shape for one in shadows]
    trained = {name: one for name, one in parameters.items() if one.requires_grad}
    for held in (trained, parameters):
        if shapes == [one.shape for one in held.values()]:
            return Copy(thing, partial(_named, list(held), thing), True)
    return None


def _named(names: Sequence[str], average: Any) -> dict[str, torch.Tensor]:
    return dict(zip(names, getattr(average, _SHADOWS), strict=True))


def _outermost(copies: list[Copy]) -> list[Copy]:
    """Without those that another one holds."""
    held: set[int] = set()
    for copy in copies:
        if isinstance(copy.source, nn.Module):
            held.update(id(part) for part in copy.source.modules() if part is not copy.source)
    return [one for one in copies if id(one.source) not in held]
