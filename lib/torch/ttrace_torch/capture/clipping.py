"""Follows how a job clips its gradients by torch's own functions, while a step is traced.

`clip_grad_norm_` may have been imported before anything is traced, so the functions that it calls
are followed instead. The gradients are recorded before they are clipped. The norm is not: under
FSDP2 every rank has a part of it, and a tensor that one run alone records is a difference. Readers
take that of the main gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Set
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
    limit: of their L2 norm; None if they were clipped in another way.
    alone: whether the norm is of these gradients and no others.
    norm: what torch's function was given as the norm.
    full: what the job made of that, where it is a DTensor.
    told: whether the job told the norm.
    """

    names: frozenset[str]
    with_gradients: frozenset[str]
    whole: bool
    name: str
    limit: float | None = None
    alone: bool = False
    norm: Any = None
    full: Any = None
    told: bool = False

    def known_from(self, recorded: Set[str]) -> bool:
        """Whether readers can take the norm: all gradients that made it were recorded."""
        return self.alone and self.with_gradients <= recorded


class Clipping:
    """How, and to which limits, the gradients of a step were clipped.

    parameters: those of the job, by name.
    before: called before the gradients of these parameters are clipped.
    limited: called before gradients are clipped by an L2 norm, with its name and the norm.
    in_turns: whether several optimizers may make their steps one after the other, so that
        parameters without a gradient may get one later in the step.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        before: Callable[[Set[str]], None],
        limited: Callable[[str, Any], None],
        in_turns: bool = False,
    ) -> None:
        self._parameters = parameters
        self._in_turns = in_turns
        self._before = before
        self._limited = limited
        self._norm_type: Any = 2.0
        # The norm that torch's function made last, and of how many gradients.
        self._norm: Any = None
        self._gradients = 0
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
            if "torch.distributed.tensor" in sys.modules:
                tensors = sys.modules["torch.distributed.tensor"].DTensor
                whole = [(tensors, ("full_tensor",))]
                stack.enter_context(replaced_functions(whole, self._gathering))
            yield

    def limit(self) -> float | None:
        """The limit of the norm of all gradients; None if they were clipped in another way."""
        whole = len(self.clips) == 1 and self.clips[0].whole
        return self.clips[0].limit if whole else None

    def told(self, norm: Any, limit: float | None, parameters: Any = None) -> str:
        """Notes a norm that the job tells, and returns the name that it is recorded by: GRAD_NORM
        if it is of all gradients.

        limit: what gradients were clipped to by it; None if they were not.
        parameters: those whose gradients the norm is of, if the job says so.
        """
        if parameters is None:
            clip = self._clipped_by(norm)
            if clip is None or clip.whole:
                return GRAD_NORM
        else:
            names = self._named(_listed(parameters))
            if not names:
                raise TraceError("none of these parameters belongs to the traced model")
            if self._covers(names):
                return GRAD_NORM
            same = [clip for clip in self.clips if clip.names == names]
            if not same and limit is None:
                return self._name(names)
            clip = same[-1] if same else self._add(names, limit)
        # What torch's function clipped in another way stays unknown.
        if clip.limit is not None and limit is not None:
            clip.limit = limit
        clip.told = True
        return clip.name

    def _clipped_by(self, norm: Any) -> Clip | None:
        """What was clipped by this very norm; None if it is another one."""
        for clip in reversed(self.clips):
            if norm is clip.norm or norm is clip.full:
                return clip
        unknown = False
        for clip in self.clips:
            number = clip.norm if clip.full is None else clip.full
            if clip.whole or clip.told or number is None:
                continue
            # The numbers of DTensors are not read: that may need all ranks.
            if hasattr(number, "placements") or hasattr(norm, "placements"):
                unknown = True
            elif float(number) == float(norm):
                return clip
        if unknown:
            raise TraceError(
                "parts of the gradients were clipped by norms of their own; say whose this one "
                "is with tracer.grad_norm(norm, parameters=...)"
            )
        return None

    def _measuring(self, measure: Function) -> Function:
        @wraps(measure)
        def measured(tensors: Any, norm_type: Any = 2.0, *args: Any, **kwargs: Any) -> Any:
            self._norm_type = norm_type
            tensors = _listed(tensors)
            self._gradients = len(tensors)
            self._norm = measure(tensors, norm_type, *args, **kwargs)
            return self._norm

        return measured

    def _gathering(self, gather: Function) -> Function:
        @wraps(gather)
        def gathered(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            full = gather(tensor, *args, **kwargs)
            for clip in self.clips:
                if clip.norm is tensor:
                    clip.full = full
            return full

        return gathered

    def _clipped(self, clip: Function) -> Function:
        @wraps(clip)
        def clipped(parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kw: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _listed(parameters)
                known = float(self._norm_type) == 2 and float(max_norm) < float("inf")
                self._note(parameters, float(max_norm) if known else None, total_norm)
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
        names = self._named(parameters)
        if not names:
            return
        self._before(names)
        last = self.clips[-1] if self.clips else None
        if last is None or norm is None or last.norm is not norm:
            clip = self._add(names, limit, norm)
            clip.alone = norm is self._norm and self._gradients == self._count(names)
            if limit is not None and clip.alone:
                self._limited(clip.name, norm)
            return
        # Several calls clip by one norm.
        self.clips.pop()
        clip = self._add(names | last.names, limit if limit == last.limit else None, norm)
        clip.alone = norm is self._norm and self._gradients == self._count(clip.names)
        if last.told:
            clip.told, clip.name, clip.whole = True, last.name, last.whole

    def _add(self, names: frozenset[str], limit: float | None, norm: Any = None) -> Clip:
        whole = self._covers(names)
        having = frozenset(name for name in names if self._parameters[name].grad is not None)
        name = GRAD_NORM if whole else self._name(names)
        clip = Clip(names, having, whole, name, limit, norm=norm)
        self.clips.append(clip)
        return clip

    def _named(self, parameters: list[torch.Tensor]) -> frozenset[str]:
        """The names of those that belong to the job."""
        given = {id(parameter) for parameter in parameters}
        return frozenset(name for name, one in self._parameters.items() if id(one) in given)

    def _covers(self, names: frozenset[str]) -> bool:
        """Whether no other parameter has a gradient. Frameworks may keep them elsewhere."""
        others = [one for name, one in self._parameters.items() if name not in names]
        if not others or self._in_turns:
            return not any(one.requires_grad for one in others)
        some = any(one.grad is not None for one in self._parameters.values())
        return some and all(one.grad is None for one in others)

    def _name(self, names: frozenset[str]) -> str:
        """Of the norm of a part, the same in every run: the module that holds these parameters, and
        where it holds others, too, the first of them, such as actor[0.bias]."""
        split = [name.split(".") for name in sorted(names)]
        common: list[str] = []
        for parts in zip(*split):
            if len(set(parts)) > 1:
                break
            common.append(parts[0])
        module = ".".join(common)
        inside = {n for n in self._parameters if n == module or n.startswith(module + ".")}
        if module and inside == names:
            return module
        return f"{module or GRAD_NORM}[{'.'.join(split[0][len(common) :])}]"

    def _count(self, names: frozenset[str]) -> int:
        """How many gradients these parameters have."""
        held = (self._parameters[name] for name in names)
        return len({id(parameter) for parameter in held if parameter.grad is not None})


def _listed(parameters: Any) -> list[torch.Tensor]:
    """`parameters`, which may be a single one or a generator, in a form that can be read twice."""
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
