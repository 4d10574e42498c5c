"""Modules that torch.compile has taken: what runs inside them has no hooks.

A hook inside would be compiled too, and change what the compiler makes of the model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from torch import nn

from ttrace_torch.base.names import ROOT, ModelNames


def compiled_of(names: ModelNames) -> dict[str, nn.Module]:
    """Canonical name -> what is called in the place of a compiled module, for the outermost ones.

    A module compiled in place, by its `compile()`, stands for itself: its own hooks are compiled
    as well.
    """
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        # Nothing is compiled, though a module compiled in place looks so.
        return {}
    wrapped = {
        id(getattr(module, "_orig_mod", None)): module
        for part in names.naming.parts(names.model)
        for module in part.modules()
        if type(module).__name__ == "OptimizedModule"
    }
    found: dict[str, nn.Module] = {}
    for name, module in names.modules.items():
        if is_inside_any(name, found):
            continue
        if id(module) in wrapped:
            found[name] = wrapped[id(module)]
        elif getattr(module, "_compiled_call_impl", None) is not None:
            found[name] = module
    return found


def is_inside(name: str, outer: str) -> bool:
    """Whether module `name` is inside module `outer`, and not `outer` itself."""
    return name != outer and (outer == ROOT or name.startswith(outer + "."))


def is_inside_any(name: str, outer: Iterable[str]) -> bool:
    """Whether module `name` is inside one of these."""
    return any(is_inside(name, one) for one in outer)
