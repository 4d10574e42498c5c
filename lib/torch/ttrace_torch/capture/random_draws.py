"""Random numbers that the model draws while it runs, recorded as data.

What a module does with a draw (drop path, a jitter of the input of a router) follows from it like
from any other input. A single number is left out: models draw those to decide in Python whether to
skip a layer, and do so even where they never skip one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import get_ident
from typing import Any

import torch

# The end of the name of a draw; what stands before it is the module that drew.
DRAW = "(random)"

_FUNCTIONS = ("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "bernoulli")
_METHODS = (
    *("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_"),
    *("normal_", "random_", "uniform_"),
)


@contextmanager
def recorded_draws(record: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Calls `record` with every tensor with dimensions that this thread draws inside: another one
    may draw for the data of the next step."""
    thread = get_ident()

    def told(drawn: torch.Tensor) -> None:
        if get_ident() == thread:
            record(drawn)

    replaced: list[tuple[Any, str, Any]] = []
    for owner, names in ((torch, _FUNCTIONS), (torch.Tensor, _METHODS)):
        for name in names:
            own = vars(owner).get(name)
            setattr(owner, name, _telling(getattr(owner, name), told))
            replaced.append((owner, name, own))
    try:
        yield
    finally:
        for owner, name, own in replaced:
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)


def _telling(
    draw: Callable[..., Any], record: Callable[[torch.Tensor], None]
) -> Callable[..., Any]:
    @wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        out = draw(*args, **kwargs)
        if isinstance(out, torch.Tensor) and out.dim() > 0:
            record(out)
        return out

    return drawn
