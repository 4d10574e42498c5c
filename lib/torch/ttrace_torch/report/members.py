"""Dataclasses over JSON: a field says how its member is read.

A file may hold anything: readers check every member, and the sentence says which one is wrong.
Members that no field reads are ignored; `json` of every object has all of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import MISSING, field
from typing import Any, Callable, TypeVar

from ttrace_torch.report.errors import ReportError

# Takes a value and its place in the file, and returns the field's value. Throws ReportError.
Reader = Callable[[Any, str], Any]
Made = TypeVar("Made")

_NOT_FINITE = ("nan", "inf", "-inf")


def member(read: Reader, *names: str, default: Any = MISSING) -> Any:
    """A field that reads the first of these members that is there; by default the one of its name.

    A name with a dot is a member of a member. Without a default one of them must be there; `dict`
    is an empty one.
    """
    metadata = {"read": read, "names": names, "required": default is MISSING}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    # Classes may add required members behind those of their base that have a default.
    return field(default=None if default is MISSING else default, metadata=metadata)


def raw() -> Any:
    """The field `json`: the object as it stands in the file."""
    return field(default_factory=dict, repr=False, compare=False)


def read_object(kind: Callable[..., Made], value: Any, where: str) -> Made:
    """One dataclass from an object of the file. Throws ReportError."""
    if not isinstance(value, dict):
        raise _wrong(value, "an object", where)
    found: dict[str, Any] = {"json": value}
    for name, read, names, required in _plan(kind):
        for one in names:
            at: Any = value
            for part in one:
                at = at.get(part, MISSING) if isinstance(at, dict) else MISSING
            if at is not MISSING:
                found[name] = read(at, f"{where}/{'/'.join(one)}")
                break
        else:
            if required:
                raise ReportError(f"{where}: the member {'.'.join(names[0])!r} is missing")
    return kind(**found)


@functools.cache
def _plan(kind: Any) -> list[tuple[str, Reader, list[tuple[str, ...]], bool]]:
    plan = []
    for one in dataclasses.fields(kind):
        if "read" in one.metadata:
            names = [tuple(name.split(".")) for name in one.metadata["names"] or (one.name,)]
            plan.append((one.name, one.metadata["read"], names, one.metadata["required"]))
    return plan


def text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "a text", where)
    return value


def whole(value: Any, where: str) -> int:
    if type(value) is not int:
        raise _wrong(value, "a whole number", where)
    return value


def flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, "true or false", where)
    return value


def number(value: Any, where: str) -> float:
    """A number, or "nan", "inf" or "-inf", which are no numbers in JSON."""
    if type(value) in (int, float) or value in _NOT_FINITE:
        try:
            return float(value)
        except OverflowError:
            pass
    raise _wrong(value, "a number", where)


def table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(value, "an object", where)
    return value


def maybe(read: Reader) -> Reader:
    """A reader that takes `null` for None."""
    return lambda value, where: None if value is None else read(value, where)


def many(read: Reader) -> Reader:
    def read_many(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(value, "a list", where)
        return tuple(read(one, f"{where}/{at}") for at, one in enumerate(value))

    return read_many


def named(read: Reader) -> Reader:
    def read_named(value: Any, where: str) -> Mapping[str, Any]:
        return {name: read(one, f"{where}/{name}") for name, one in table(value, where).items()}

    return read_named


def part(kind: type[Any]) -> Reader:
    return lambda value, where: read_object(kind, value, where)


def _wrong(value: Any, wanted: str, where: str) -> ReportError:
    shown = repr(value)
    return ReportError(
        f"{where}: {shown if len(shown) < 40 else shown[:36] + '...'} is not {wanted}"
    )
