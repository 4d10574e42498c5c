"""Modules that torch.compile has compiled: modules inside them get no hooks.

A hook inside would be compiled too, and would change the compiled model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from torch import nn

from ttrace_torch.base.names import ROOT, ModelNames


def compiled_of(names: ModelNames) -> dict[str, nn.Module]:
    """Canonical name -> the object that is called in the place of a compiled module, for the
    outermost ones.

    A module compiled in place, by its `compile()`, stands for itself: its own hooks are compiled
    as well.
    """
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        # Nothing is compiled, though a module compiled in place looks so.
        return {}
    wrappers = _wrappers_of(names)
    found: dict[str, nn.Module] = {}
    for name, module in names.modules.items():
        if is_inside_any(name, found):
            continue
        if name in wrappers:
            found[name] = wrappers[name]
        elif compiled_in_place(module):
            found[name] = module
    return found


def compiled_in_place(module: nn.Module) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None


def _wrappers_of(names: ModelNames) -> dict[str, nn.Module]:
    """Canonical name -> the result of torch.compile for the module, or for a wrapper around it,
    such as DistributedDataParallel; the outermost of several."""
    found: dict[str, nn.Module] = {}
    for part in names.naming.parts(names.model):
        held = dict(part.named_modules())
        for path, name in names.naming.of_modules(part).items():
            if name is not None and _is_wrapper(held[path]):
                found.setdefault(name, held[path])
    return found


def graphed_of(names: ModelNames) -> list[str]:
    """The modules on a GPU whose kernels CUDA graphs replay, without the Python around them."""
    found = []
    for part in names.naming.parts(names.model):
        for path, module in part.named_modules():
            made = getattr(vars(module).get("forward"), "__qualname__", "")
            if "make_graphed_callables" in made or (_is_wrapper(module) and _replays(module)):
                found.append(path.replace("._orig_mod", "") or ROOT)
    return found


def _is_wrapper(module: nn.Module) -> bool:
    # fully_shard derives a class of its own from that of torch.compile.
    return any(cls.__name__ == "OptimizedModule" for cls in type(module).__mro__)


def _replays(module: nn.Module) -> bool:
    """Whether the compiler was told to use CUDA graphs, and has kernels to use them for."""
    settings = getattr(getattr(module, "dynamo_ctx", None), "compiler_config", None) or {}
    return bool(settings.get("triton.cudagraphs")) and any(p.is_cuda for p in module.parameters())


def is_inside(name: str, outer: str) -> bool:
    """Whether module `name` is inside module `outer`, and not `outer` itself."""
    return name != outer and (outer == ROOT or name.startswith(outer + "."))


def is_inside_any(name: str, outer: Iterable[str]) -> bool:
    """Whether module `name` is inside one of these."""
    return any(is_inside(name, one) for one in outer)
