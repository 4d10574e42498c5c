"""Follows how a job clips its gradients by torch's own functions, while a step is traced.

`clip_grad_norm_` may have been imported before anything is traced, so the functions that it calls
are followed instead. The gradients are recorded before they are clipped. The norm is not: under
FSDP2 every rank has a part of it, and a tensor that one run alone records is a difference. Readers
take that of the main gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch

from ttrace_torch.capture.replaced_functions import Function, replaced_functions
from ttrace_torch.errors import TraceError

_MODULE = torch.nn.utils.clip_grad
GRAD_NORM = "grad_norm"


@dataclass
class Clip:
    """Gradients that were clipped by one norm.

    names: of the job's parameters among those that were given.
    with_gradients: of them, those that had a gradient.
    whole: whether the job had no other gradients then.
    name: that the norm is recorded by.
    limit: of their L2 norm; None if they were clipped in another way, or in a way that is not
        known.
    alone: whether the norm is of these gradients and no others.
    norm: what torch's function was given as the norm.
    told: whether the job told the norm.
    """

    names: frozenset[str]
    with_gradients: frozenset[str]
    whole: bool
    name: str
    limit: float | None = None
    alone: bool = False
    norm: Any = None
    told: bool = False


class Clipping:
    """How, and to which limits, the gradients of a step were clipped.

    parameters: those of the job, by name.
    before: called before gradients are clipped.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], before: Callable[[], None]) -> None:
        self._parameters = parameters
        self._before = before
        self._norm_type: Any = 2.0
        self._gradients = 0  # how many the last norm was taken of
        self.clips: list[Clip] = []

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Inside, torch's functions tell what they clip."""
        with ExitStack() as stack:
            for owner, name, around in (
                (_MODULE, "_get_total_norm", self._measuring),
                (_MODULE, "_clip_grads_with_norm_", self._clipped),
                (torch.nn.utils, "get_total_norm", self._measuring),
                (torch.nn.utils, "clip_grads_with_norm_", self._clipped),
                (_MODULE, "clip_grad_value_", self._cut),
                (torch.nn.utils, "clip_grad_value_", self._cut),
            ):
                if hasattr(owner, name):
                    stack.enter_context(replaced_functions([(owner, (name,))], around))
            yield

    def of(self, name: str) -> list[Clip]:
        """What the gradient of a parameter was clipped by."""
        return [clip for clip in self.clips if name in clip.names]

    def limit(self) -> float | None:
        """The limit of the norm of all gradients; None if they were clipped in another way."""
        whole = len(self.clips) == 1 and self.clips[0].whole
        return self.clips[0].limit if whole else None

    def told(self, norm: Any, limit: float | None, parameters: Any = None) -> Clip | None:
        """What was clipped by a norm that the job tells; None if that is the norm of all
        gradients, or if torch's functions have clipped nothing by it.

        parameters: those whose gradients the norm is of, if the job says so.
        """
        if parameters is None:
            clip = self._clipped_by(norm)
        else:
            names, whole = self._named(_listed(parameters))
            same = [clip for clip in self.clips if clip.names == names]
            clip = same[-1] if same else self._add(names, whole)
        if clip is None or clip.whole:
            return None
        clip.told = True
        # An infinite limit computes the norm without clipping.
        if limit is not None and math.isfinite(limit):
            clip.limit = float(limit)
        return clip

    def _clipped_by(self, norm: Any) -> Clip | None:
        for clip in reversed(self.clips):
            if clip.norm is norm:
                return clip
        equal = [clip for clip in self.clips if not clip.told and _may_be_equal(clip.norm, norm)]
        if len(equal) > 1 and not all(clip.whole for clip in equal):
            raise TraceError(
                "parts of the gradients were clipped by norms of their own; say which "
                "with tracer.grad_norm(norm, parameters=...)"
            )
        return equal[0] if equal else None

    def _measuring(self, measure: Function) -> Function:
        @wraps(measure)
        def measured(tensors: Any, norm_type: Any = 2.0, *args: Any, **kwargs: Any) -> Any:
            self._norm_type = norm_type
            tensors = _listed(tensors)
            self._gradients = len(tensors)
            return measure(tensors, norm_type, *args, **kwargs)

        return measured

    def _clipped(self, clip: Function) -> Function:
        @wraps(clip)
        def clipped(parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kw: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _listed(parameters)
                self._note(parameters, float(max_norm), total_norm)
            return clip(parameters, max_norm, total_norm, *args, **kw)

        return clipped

    def _cut(self, cut: Function) -> Function:
        @wraps(cut)
        def cut_down(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _listed(parameters)
                self._note(parameters, None, None)
            return cut(parameters, *args, **kwargs)

        return cut_down

    def _note(self, parameters: list[torch.Tensor], limit: float | None, norm: Any) -> None:
        """Notes that these are about to be clipped, if some of them belong to the job; their
        gradients are then recorded."""
        names, whole = self._named(parameters)
        if not names:
            return
        self._before()
        if limit is not None and (float(self._norm_type) != 2 or limit == float("inf")):
            limit = None
        last = self.clips[-1] if self.clips else None
        if last is not None and norm is not None and last.norm is norm:
            # One norm of all gradients, which are then clipped in several calls.
            names |= last.names
            self.clips.pop()
            self._add(names, self._covers(names), limit, False, norm)
            return
        self._add(names, whole, limit, self._gradients == self._count(names), norm)

    def _add(
        self,
        names: frozenset[str],
        whole: bool,
        limit: float | None = None,
        alone: bool = False,
        norm: Any = None,
    ) -> Clip:
        having = frozenset(n for n in names if self._parameters[n].grad is not None)
        clip = Clip(names, having, whole, self._name(names, whole), limit, alone, norm)
        self.clips.append(clip)
        return clip

    def _named(self, parameters: list[torch.Tensor]) -> tuple[frozenset[str], bool]:
        """The names of those that belong to the job, and whether it has no other gradients."""
        given = {id(parameter) for parameter in parameters}
        names = frozenset(n for n, one in self._parameters.items() if id(one) in given)
        return names, self._covers(names)

    def _covers(self, names: frozenset[str]) -> bool:
        return all(n in names for n, one in self._parameters.items() if one.grad is not None)

    def _count(self, names: frozenset[str]) -> int:
        """How many gradients these parameters have."""
        held = (self._parameters[name] for name in names)
        return len({id(parameter) for parameter in held if parameter.grad is not None})

    def _name(self, names: frozenset[str], whole: bool) -> str:
        """Of the norm of a part: what the names of its parameters begin with, or a number."""
        if whole:
            return GRAD_NORM
        taken = {clip.name for clip in self.clips}
        common = _common_module(names)
        if common and common not in taken:
            return common
        number = 1
        while f"{common or GRAD_NORM}[{number}]" in taken:
            number += 1
        return f"{common or GRAD_NORM}[{number}]"


def _common_module(names: Iterable[str]) -> str:
    split = [name.split(".") for name in names]
    common = []
    for parts in zip(*split):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)


def _may_be_equal(known: Any, told: Any) -> bool:
    """Whether a norm that the job tells may be a known one. Those of DTensors are not read: that
    may need all ranks."""
    if known is None:
        return False
    if hasattr(known, "placements") or hasattr(told, "placements"):
        return True
    return float(known) == float(told)


def _listed(parameters: Any) -> list[torch.Tensor]:
    """`parameters`, which may be a single one or a generator, in a form that can be read twice."""
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
