"""Whether the model draws random numbers while it runs: no other run repeats such a step."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Callable

import torch
from torch import nn

ADVICE = (
    "the model draws random numbers in its forward, so no other run repeats this one, unless it "
    "draws the same ones; for traced runs, the reference's too, give them as arguments or draw none"
)


def watch_random_numbers(
    parts: Iterable[nn.Module], stack: ExitStack, tell: Callable[[str], None]
) -> None:
    """Calls tell(ADVICE) once if a forward of a part of the model changes the state of a random
    generator.

    The hooks are removed with `stack`.
    """
    begun: list[list[torch.Tensor]] = []
    told = False

    def before(*_: Any) -> None:
        if not told:
            begun.append(_states())

    def after(*_: Any) -> None:
        nonlocal told
        if told or not begun:
            return
        if not all(map(torch.equal, begun.pop(), _states())):
            told = True
            tell(ADVICE)

    for part in parts:
        stack.callback(part.register_forward_pre_hook(before).remove)
        stack.callback(part.register_forward_hook(after).remove)


def _states() -> list[torch.Tensor]:
    """The states of the default generators of the CPU and of the current GPU."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states.append(torch.cuda.get_rng_state())
    return states
