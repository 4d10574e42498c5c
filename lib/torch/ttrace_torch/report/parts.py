"""What reports are made of: runs, tensors, findings, causes. schemas/ says what every member means.

Members have the names of the JSON, and what is a Python keyword has another one (`class`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttrace_torch.report.members import (
    flag,
    many,
    maybe,
    member,
    number,
    part,
    raw,
    table,
    text,
    whole,
)


@dataclass(frozen=True)
class Key:
    """The identity of a tensor in a trace."""

    step: int = member(whole)
    microbatch: int | None = member(maybe(whole))
    kind: str = member(text)
    name: str = member(text)
    call: int = member(whole)
    copy: int = member(whole, default=0)
    json: Mapping[str, Any] = raw()


def _mesh(value: Any, where: str) -> dict[str, int]:
    axes = many(table)(value, where)
    return {
        text(axis.get("name"), f"{where}/{at}/name"): whole(axis.get("size"), f"{where}/{at}/size")
        for at, axis in enumerate(axes)
    }


@dataclass(frozen=True)
class Run:
    """A trace. mesh: size of every axis, the last one fastest."""

    path: str = member(text)
    ranks: int = member(whole)
    mesh: Mapping[str, int] = member(_mesh)
    steps: tuple[int, ...] = member(many(whole))
    precision: str = member(text)
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Cause:
    """A cause that fits. unexplained: what it leaves, in the unit of `error`."""

    name: str = member(text)
    axis: str | None = member(maybe(text))
    evidence: str = member(text)
    unexplained: float = member(number)
    values: Mapping[str, str | float] = member(table, default=dict)
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Rejected:
    """A cause that was tried and does not fit."""

    name: str = member(text)
    unexplained: float = member(number)
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Place:
    """Where in the code. kind: "module", "between", "synchronisation", "optimizer"."""

    kind: str = member(text)
    of: str = member(text)
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Check:
    """What was held against a tensor by `audit` or `localize`, and whether it holds."""

    operation: str = member(text)
    result: str = member(text)
    error: float | None = member(maybe(number))
    bound: float | None = member(maybe(number))
    id: str = member(text, default="")
    expected: str = member(text, default="")
    reason: str = member(text, default="")
    ranks: tuple[int, ...] = member(many(whole), default=())
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Result:
    """One tensor. Numbers that it has none of are None. used: error over allowed."""

    id: str = member(text)
    key: Key = member(part(Key))
    outcome: str = member(text)
    shape: tuple[int, ...] = member(many(whole))
    dtype: str = member(text)
    elements: int | None = member(whole, default=None)
    phase: str = member(text, default="")
    module: str = member(text, default="")
    layer: int | None = member(whole, default=None)
    used: float | None = member(number, default=None)
    reason: str = member(text, default="")
    error: float | None = member(maybe(number), default=None)
    error_in_eps: float | None = member(maybe(number), default=None)
    allowed: float | None = member(maybe(number), default=None)
    rule: str = member(text, default="")
    passing_multiplier: float | None = member(maybe(number), default=None)
    difference_norm: float | None = member(maybe(number), default=None)
    reference_norm: float | None = member(maybe(number), default=None)
    candidate_norm: float | None = member(maybe(number), default=None)
    mean_difference: float | None = member(maybe(number), default=None)
    cosine: float | None = member(maybe(number), default=None)
    scale: float | None = member(maybe(number), default=None)
    residual: float | None = member(maybe(number), default=None)
    replica_drift: float | None = member(maybe(number), default=None)
    unequal: int | None = member(whole, default=None)
    known: bool = member(flag, default=False)
    downstream: bool = member(flag, default=False)
    checks: tuple[Check, ...] = member(many(part(Check)), default=())
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Finding:
    """Tensors that are wrong although all tensors that they were computed from are right.

    keys: ids of all tensors that are wrong in the same way. causes: the best first; empty if none
        fits, or if `compare` wrote the finding in short, which also leaves the members after it
        empty.
    checks, here, next: only in answers of `audit` and `localize`.
    setting: only in a finding about the optimizer.
    """

    id: str = member(text)
    keys: tuple[str, ...] = member(many(text), "members", default=())
    outcome: str = member(text, default="")
    headline: str = member(text, default="")
    title: str = member(text, default="")
    group: str = member(text, default="")
    phase: str = member(text, default="")
    place: Place | None = member(maybe(part(Place)), default=None)
    module: str = member(text, default="")
    class_name: str = member(text, "source.class", default="")
    called_at: str = member(text, "source.called_at", default="")
    ranks: tuple[int, ...] = member(many(whole), default=())
    where: str = member(text, default="")
    causes: tuple[Cause, ...] = member(many(part(Cause)), default=())
    rejected: tuple[Rejected, ...] = member(many(part(Rejected)), default=())
    downstream: int = member(whole, "downstream_total", default=0)
    checks: tuple[Check, ...] = member(many(part(Check)), default=())
    here: bool = member(flag, default=False)
    next: str = member(text, default="")
    record_next: str = member(text, default="")
    setting: Mapping[str, Any] | None = member(table, default=None)
    json: Mapping[str, Any] = raw()

    @property
    def cause(self) -> Cause | None:
        """The best one; None if none fits."""
        return self.causes[0] if self.causes else None


@dataclass(frozen=True)
class Group:
    """Findings of a comparison that are alike: `findings` are their ids, `shown` one of them."""

    id: str = member(text)
    title: str = member(text)
    shown: str = member(text)
    findings: tuple[str, ...] = member(many(text))
    headline: str = member(text)
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Suspect:
    """A tensor behind a finding that may hide a second bug."""

    id: str = member(text)
    used: float = member(number)
    used_before: float = member(number)
    json: Mapping[str, Any] = raw()


@dataclass(frozen=True)
class Layer:
    """A module that `localize` judged by itself."""

    module: str = member(text)
    class_name: str = member(text, "class")
    judged: int = member(whole)
    not_judged: int = member(whole)
    worst_share: float = member(number)
    broken: tuple[Check, ...] = member(many(part(Check)))
    json: Mapping[str, Any] = raw()
