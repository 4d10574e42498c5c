"""Sorts of whole numbers that keep equal ones in their order, while a step is traced.

Experts take their tokens in the order of a sort by expert. The kernel (AVX-512, a bitonic network,
a radix sort) decides which of several equal numbers comes first, and every choice is right. But all
tensors between such a sort and its inverse have their rows in that order: two healthy runs could
not be compared, and no run could be recomputed. In a stable order, every kernel gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from ttrace_torch.capture.replaced_functions import replaced_functions

_SORTS = ("sort", "argsort")


@contextmanager
def stable_sorts() -> Iterator[None]:
    """Makes `sort` and `argsort` of whole numbers stable inside, unless a call sets `stable`
    itself."""
    with replaced_functions([(torch, _SORTS), (torch.Tensor, _SORTS)], _stable):
        yield


def _stable(sort: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(sort)
    def sorted_stably(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        whole = isinstance(x, torch.Tensor) and not x.is_floating_point() and not x.is_complex()
        # With names of dimensions, or an order given by position, there is nothing to add.
        if not whole or "stable" in kwargs or any(isinstance(one, bool) for one in args[1:2]):
            return sort(*args, **kwargs)
        given = dict(zip(("dim", "descending"), args[1:]))
        return sort(*args[:1], **{**given, **kwargs, "stable": True})

    return sorted_stably
