"""Replaces functions of torch for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Function = Callable[..., Any]


@contextmanager
def replaced_functions(
    named: Sequence[tuple[Any, Sequence[str]]], around: Callable[[Function], Function]
) -> Iterator[None]:
    """Puts `around(f)` in the place of every function f inside, and f back afterwards.

    named: owners, such as a module or a class, and the names of their functions.
    """
    replaced: list[tuple[Any, str, Any]] = []
    for owner, names in named:
        for name in names:
            # An inherited function is no attribute of the class itself, and must not become one.
            own = vars(owner).get(name)
            setattr(owner, name, around(getattr(owner, name)))
            replaced.append((owner, name, own))
    try:
        yield
    finally:
        for owner, name, own in replaced:
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
