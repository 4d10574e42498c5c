"""Matches the entries of a plan against the names of modules."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from ttrace_torch.base.names import matching, nearest
from ttrace_torch.errors import TraceError
from ttrace_torch.rewrite.plan import Entry, Plan, Tensors

MEMBERS = ("inputs", "grad_outputs")


@dataclass
class Target:
    """What to overwrite of one module, and the plan's entries that say so."""

    inputs: Tensors | None = None
    inputs_entry: str = ""
    grad_outputs: Tensors | None = None
    grad_outputs_entry: str = ""


def targets_of(plan: Plan, modules: Iterable[str], several: bool) -> dict[str, Target]:
    """Module name -> what to overwrite of it.

    several: whether the run has several ranks, of which this one may lack modules. Otherwise an
        entry that matches no module throws TraceError.
    """
    known = list(modules)
    targets: dict[str, Target] = {}
    elsewhere: list[str] = []
    for entry in plan.entries:
        matched = [entry.name] if entry.name in known else matching(entry.name, known)
        if not matched:
            elsewhere.append(entry.name)
        for name in matched:
            _apply(entry, targets.setdefault(name, Target()))
    if elsewhere and not several:
        raise TraceError(
            f"plan {plan.source}: {elsewhere[0]!r} matches no module; "
            + nearest(elsewhere[0], known)
        )
    if elsewhere:
        listed = ", ".join(elsewhere[:3]) + (", ..." if len(elsewhere) > 3 else "")
        warnings.warn(
            f"plan {plan.source}: {len(elsewhere)} of its {len(plan.entries)} entries match no "
            f"module on this rank ({listed}); right for a stage of a pipeline, else see the names",
            stacklevel=3,
        )
    return targets


def _apply(entry: Entry, target: Target) -> None:
    for member in MEMBERS:
        given = getattr(entry, member)
        if given is not None:
            setattr(target, member, given)
            setattr(target, f"{member}_entry", entry.name)
