"""Random numbers that the model draws while it runs, recorded as data.

The results of a module that uses a draw (drop path, a jitter of a router's input) follow from it as
from any other input. Single numbers are left out: models draw them to decide in Python whether to
skip a layer, even if they never skip one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import get_ident
from typing import Any

import torch

from ttrace_torch.capture.replaced_functions import replaced_functions

# The name of a draw ends with this; before it stands the module that drew.
DRAW = "(random)"

_FUNCTIONS = (
    *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "bernoulli"),
    *("multinomial", "normal", "poisson", "randperm"),
)
_METHODS = (
    *("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_"),
    *("normal_", "random_", "uniform_"),
)


@contextmanager
def recorded_draws(record: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Calls `record` with every tensor with dimensions that this thread draws inside. Other threads
    may draw for the data of the next step."""
    thread = get_ident()

    def told(drawn: torch.Tensor) -> None:
        if get_ident() == thread:
            record(drawn)

    named = [(torch, _FUNCTIONS), (torch.Tensor, _METHODS)]
    with replaced_functions(named, lambda draw: _telling(draw, told)):
        yield


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
