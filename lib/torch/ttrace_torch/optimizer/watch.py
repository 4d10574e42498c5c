"""Follows an optimizer: its steps, and the settings of each parameter group in a step."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Callable

import torch

from ttrace_torch.base.names import ModelNames
from ttrace_torch.errors import TraceError
from ttrace_torch.optimizer.closures import Again, Arguments, closure_of, followed, with_closure
from ttrace_torch.optimizer.masters import masters_of, updated_tensors
from ttrace_torch.optimizer.state import StateTensor, state_tensors
from ttrace_torch.optimizer.wrappers import optimizer_of_share

_NUMBERS = ("lr", "momentum", "dampening", "eps", "weight_decay")
_FLAGS = ("nesterov", "maximize", "amsgrad")


class OptimizerWatch:
    """Follows an optimizer's steps, traced or not, so that updates are counted from the first.

    optimizer: a torch optimizer, or any object with its `register_step_pre_hook` and
        `register_step_post_hook`; `param_groups` and `state` are read if it has them.
    before, after: called around every optimizer step. Where the step evaluates a closure, `before`
        is called when the gradients are final: when the closure has returned for the first time.
        Where a class's own `step()` calls torch's, `before` is called once more in between.
    again: a context for every further evaluation of the closure in the step.
    """

    def __init__(
        self,
        optimizer: Any,
        before: Callable[[], None],
        after: Callable[[], None],
        again: Again | None = None,
    ) -> None:
        for method in ("register_step_pre_hook", "register_step_post_hook"):
            if not hasattr(optimizer, method):
                raise TraceError(
                    f"{type(optimizer).__name__} has no {method}; pass the torch optimizer inside "
                    "it, or no optimizer, and call tracer.main_grads() and "
                    "tracer.params_after_step() yourself"
                )
        self.optimizer = optimizer
        self._count = 0
        # The tensors of its groups when masters were last looked for, and what was found.
        self._held: list[int] | None = None
        self._masters: dict[str, torch.Tensor] = {}
        own_step = _has_own_step(type(optimizer))
        if own_step:
            _hook_steps_of_torch(type(optimizer))

        def pre(*given: Any) -> Arguments | None:
            if own_step and _runs_within_another_step(optimizer):
                before()
                return None
            closure = closure_of(given)
            if closure is None:
                before()
                return None
            return with_closure(given, followed(closure, before, again))

        def post(*_: Any) -> None:
            if own_step and _runs_within_another_step(optimizer):
                return
            self._count += 1
            after()

        self._handles = [
            optimizer.register_step_pre_hook(pre),
            optimizer.register_step_post_hook(post),
        ]

    def remove(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's entries for the coming optimizer step."""
        return entries_of(self.optimizer, step, self._updated(names), self._count)

    def states(self, names: ModelNames) -> Iterator[StateTensor]:
        """The state at the beginning of the coming step."""
        # Each rank of a ZeroRedundancyOptimizer has the state of its own share alone.
        optimizer = optimizer_of_share(self.optimizer)
        return state_tensors(optimizer, self._updated(names), names.parameters)

    def held(self, names: ModelNames) -> set[str] | None:
        """The parameters that the optimizer's groups hold."""
        return held_in(self.optimizer, self._updated(names))

    def tensors(self) -> Iterator[torch.Tensor]:
        """What the optimizer's groups hold."""
        for group in _groups_of(self.optimizer):
            yield from group["params"]

    def masters(self, names: ModelNames) -> dict[str, torch.Tensor]:
        """Canonical name -> master, of those that nobody names (masters.py)."""
        held = [id(one) for one in self.tensors()]
        if held != self._held:
            self._held, self._masters = held, masters_of(self.optimizer, names)
        return self._masters

    def _updated(self, names: ModelNames) -> dict[int, str]:
        masters = {id(one): name for name, one in self.masters(names).items()}
        return {**updated_tensors(names), **masters}


def _groups_of(optimizer: Any) -> Sequence[Mapping[str, Any]]:
    groups: Sequence[Mapping[str, Any]] = getattr(optimizer, "param_groups", [])
    return groups


def _has_own_step(kind: type) -> bool:
    """Whether the `step` of a class is none of torch's."""
    step = getattr(kind, "step", None)
    return not str(getattr(step, "__module__", "")).startswith("torch.optim.")


def _hook_steps_of_torch(kind: type) -> None:
    """Lets the step of torch that a class's own `step()` calls run the hooks, too, as torch does
    itself once an optimizer of the class of torch was made."""
    for base in kind.__mro__[1:]:
        step = vars(base).get("step")
        if not base.__module__.startswith("torch.optim.") or base is torch.optim.Optimizer:
            continue
        if step is not None and not getattr(step, "hooked", None):
            hooked = torch.optim.Optimizer.profile_hook_step(step)
            setattr(hooked, "hooked", True)  # noqa: B010
            setattr(base, "step", hooked)  # noqa: B010


def _runs_within_another_step(optimizer: Any) -> bool:
    """Whether the hook that asks runs around a step within another step of the same optimizer: a
    class's own `step()` calls torch's. torch runs the hooks around both."""
    around = sys._getframe(2)
    frame: FrameType | None = around.f_back
    while frame is not None:
        given = frame.f_locals.get("args", ()) if frame.f_code is around.f_code else ()
        if given and given[0] is optimizer:
            return True
        frame = frame.f_back
    return False


def held_in(optimizer: Any, by_id: Mapping[int, str]) -> set[str] | None:
    """The parameters that have a tensor in the groups of a torch optimizer; None if there is no
    tensor.

    by_id: as for `entries_of`.
    """
    held = [p for group in getattr(optimizer, "param_groups", []) for p in group["params"]]
    return {by_id[id(p)] for p in held if id(p) in by_id} if held else None


def entries_of(
    optimizer: Any, step: int, by_id: Mapping[int, str], count: int
) -> list[dict[str, Any]]:
    """The manifest's entries for a torch optimizer's coming step, one for each parameter group and
    number of updates.

    by_id: id of a tensor in the groups -> canonical name of its parameter.
    count: number of steps so far, if the optimizer does not know.
    """
    found = []
    updating = optimizer_of_share(optimizer)
    groups = getattr(optimizer, "param_groups", [])
    for group, share in zip(groups, getattr(updating, "param_groups", [])):
        members = [(p, [by_id[id(p)]] if id(p) in by_id else []) for p in share["params"]]
        found.extend(group_entries(updating, group, members, step, count))
    return found


def group_entries(
    optimizer: Any,
    group: Mapping[str, Any],
    members: Sequence[tuple[Any, Sequence[str]]],
    step: int,
    count: int,
) -> list[dict[str, Any]]:
    """The entries for one parameter group.

    members: the updated tensors, each with the canonical names of its parameters.
    """
    entry = {"step": step, **_settings(optimizer, group)}
    return [
        {**entry, "updates": updates + 1, "params": params}
        for updates, params in _by_updates(optimizer, group, members, count).items()
    ]


def _settings(optimizer: Any, group: Mapping[str, Any]) -> dict[str, Any]:
    kind = type(optimizer).__name__.lower()
    fused = kind == "fusedadam"
    decoupled = fused and getattr(optimizer, "adam_w_mode", False)
    decoupled = decoupled or (kind == "adam" and group.get("decoupled_weight_decay"))
    entry: dict[str, Any] = {"type": "adamw" if decoupled else "adam" if fused else kind}
    # A tensor is a number here too; some optimizers keep tuples under these names.
    entry.update(
        {
            k: float(group[k])
            for k in _NUMBERS
            if isinstance(group.get(k), (int, float, torch.Tensor))
        }
    )
    entry.update({k: bool(group[k]) for k in _FLAGS if group.get(k) is not None})
    if group.get("betas") is not None:
        entry["betas"] = [float(beta) for beta in group["betas"]]
    return entry


def _by_updates(
    optimizer: Any,
    group: Mapping[str, Any],
    members: Sequence[tuple[Any, Sequence[str]]],
    count: int,
) -> dict[int, list[str]]:
    """Number of updates -> names of the parameters with that many.

    The numbers differ if a parameter had no gradient in some step, and so do Adam's corrections.
    """
    # The optimizer's own count includes updates before a checkpoint was loaded.
    state = getattr(optimizer, "state", {})
    counts = [state.get(one, {}).get("step", group.get("step")) for one, _ in members]
    # If others of the group have a count, a parameter without one has had no update.
    default = count if all(number is None for number in counts) else 0
    found: dict[int, list[str]] = {}
    for (_, names), number in zip(members, counts):
        found.setdefault(default if number is None else int(number), []).extend(names)
    return found or {count: []}
