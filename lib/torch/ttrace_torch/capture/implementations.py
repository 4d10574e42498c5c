"""Which of several implementations a module computes with, for the manifest's `implementation` of
modules.

Two runs that differ in it do not have the same tensors inside: eager attention has weights and a
mask of its own, which scaled_dot_product_attention does without.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn


def implementations_of(module: nn.Module) -> dict[str, str]:
    """Aspect of a module's computation -> the name of its implementation."""
    found = {}
    for aspect, read in _ASPECTS.items():
        name = read(module)
        if name is not None:
            found[aspect] = name
    return found


def _attention(module: nn.Module) -> str | None:
    """The attention implementation that a module of transformers reads from its configuration in
    its own forward."""
    return _asked(module, "_attn_implementation")


def _asked(module: nn.Module, member: str) -> str | None:
    """The configuration's `member`, if it is a text and the module's forward reads it."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None or member not in code.co_names:
        return None
    value: Any = getattr(getattr(module, "config", None), member, None)
    return value if isinstance(value, str) else None


_ASPECTS: dict[str, Callable[[nn.Module], str | None]] = {"attention": _attention}
