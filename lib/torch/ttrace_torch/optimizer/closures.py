"""Closures that compute the gradients within an optimizer's step, as L-BFGS needs them and
Lightning's automatic optimization gives them.

The gradients are final when the closure has returned: it may clip them. An optimizer that
evaluates it several times updates the parameters in between, so only its first evaluation belongs
to the parameters that the step began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Callable

Closure = Callable[..., Any]
Again = Callable[[], AbstractContextManager[Any]]
# The arguments of `Optimizer.step`, self included.
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def closure_of(given: tuple[Any, ...]) -> Closure | None:
    """The closure among the arguments of a hook before an optimizer's step; None without one.

    given: (optimizer, args, kwargs).
    """
    if len(given) != 3 or not isinstance(given[1], tuple) or not isinstance(given[2], Mapping):
        return None
    _, args, kwargs = given
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    return closure if callable(closure) else None


def with_closure(given: tuple[Any, ...], closure: Closure) -> Arguments:
    """The arguments of the step with `closure` in the place of theirs."""
    _, args, kwargs = given
    if len(args) > 1:
        return (args[0], closure, *args[2:]), kwargs
    return args, {**kwargs, "closure": closure}


def followed(closure: Closure, final: Callable[[], None], again: Again | None) -> Closure:
    """`closure`, which calls `final` when it has returned for the first time.

    again: a context for every further evaluation.
    """
    evaluations = 0

    @wraps(closure)
    def evaluated(*args: Any, **kwargs: Any) -> Any:
        nonlocal evaluations
        evaluations += 1
        if evaluations > 1:
            if again is None:
                return closure(*args, **kwargs)
            with again():
                return closure(*args, **kwargs)
        result = closure(*args, **kwargs)
        final()
        return result

    return evaluated
