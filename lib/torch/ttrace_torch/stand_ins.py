"""Parameters for which another tensor stands in while their module runs, as under FSDP2.

`fully_shard` puts a whole parameter into the module for the forward, which autograd then knows, and
keeps the sharded one, whose own hooks never fire. The same object stands in every time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import torch
from torch import nn

from ttrace_torch.dtensor import is_dtensor
from ttrace_torch.names import ROOT, ModelNames

Hook = Callable[[torch.Tensor], None]


def follow_stand_ins(names: ModelNames, hooks: Mapping[str, Hook]) -> list[Any]:
    """Puts `hooks` (canonical parameter name -> hook) on what stands in for the parameters.

    Returns a handle with `remove()`, or none where no parameter is a DTensor. The stand-ins are
    looked for whenever a module begins to run that holds the parameter, or a module inside it
    does: a parent may use its child's weight.
    """
    found = _StandIns()
    for name, hook in hooks.items():
        if is_dtensor(names.parameters[name]):
            for module, local in names.owners[name]:
                found.watch(names, module, local, name, hook)
    return [found] if found.handles else []


class _StandIns:
    """The forward pre-hooks that look for stand-ins, and the hooks on those that they found."""

    def __init__(self) -> None:
        self.handles: list[Any] = []
        self._known: set[int] = set()

    def watch(self, names: ModelNames, owner: str, local: str, name: str, hook: Hook) -> None:
        """Looks for what stands in for parameter `name`, which `owner` calls `local`."""
        module, parameter = names.modules[owner], names.parameters[name]

        def look(*_: Any) -> None:
            standing = getattr(module, local, None)
            if standing is parameter or not isinstance(standing, torch.Tensor):
                return
            if standing.requires_grad and id(standing) not in self._known:
                self._known.add(id(standing))
                self.handles.append(standing.register_hook(hook))  # type: ignore[no-untyped-call]

        for above in _and_those_around(names.modules, owner):
            self.handles.append(above.register_forward_pre_hook(look))

    def remove(self) -> None:
        """Takes all hooks off."""
        for handle in self.handles:
            handle.remove()


def _and_those_around(modules: Mapping[str, nn.Module], name: str) -> list[nn.Module]:
    """The module called `name`, and those that contain it."""
    parts = [] if name == ROOT else name.split(".")
    paths = [".".join(parts[:length]) or ROOT for length in range(len(parts) + 1)]
    return [modules[path] for path in paths if path in modules]
