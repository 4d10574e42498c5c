"""Canonical names: the names of modules and parameters in the whole, unwrapped model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Callable

import torch
from torch import nn

from ttrace_torch.errors import TraceError

ROOT = "(model)"
LOSS = "loss"
# The name of the loss in data flow, and of its factor, if a module is called `loss`.
_LOSS_BESIDE = "(loss)"
LOSSES = (LOSS, _LOSS_BESIDE)

# Path components that wrappers insert: DistributedDataParallel, torch.compile, FSDP, activation
# checkpointing.
WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


def canonical(path: str) -> str:
    """`path` without the wrappers' components; empty for the model itself."""
    return ".".join(part for part in path.split(".") if part not in WRAPPERS)


def value_name(name: str, index: int) -> str:
    """Name by position of a module's `index`-th input or output tensor, as plans and noise streams
    have it."""
    return name if index == 0 else f"{name}[{index}]"


_NOT_IN_NAMES = re.compile("[/\x00-\x1f\x7f-\x9f]")


@lru_cache(maxsize=65536)  # every tensor of a step asks, with the names of the step before
def is_name(name: str) -> bool:
    """Whether the trace format allows the name."""
    return (
        1 <= len(name.encode()) <= 512
        and name not in (".", "..")
        and not _NOT_IN_NAMES.search(name)
    )


def check_name(name: str, what: str) -> str:
    """Returns `name`. Throws TraceError if the trace format does not allow it."""
    if not is_name(name):
        raise TraceError(
            f"{what} {name!r} cannot be recorded: a name has 1 to 512 bytes and neither '/' nor "
            "control characters"
        )
    return name


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a glob pattern matches, case-sensitively."""
    return [name for name in names if fnmatchcase(name, pattern)]


def nearest(pattern: str, names: Iterable[str]) -> str:
    """A clause for error messages: the names most similar to `pattern`."""
    known = list(names)
    close = difflib.get_close_matches(pattern, known, n=3, cutoff=0.0)
    return "nearest: " + ", ".join(close) if close else "there are none"


class Naming:
    """Maps a model's own names to canonical names. Frameworks override it."""

    def place(self, part: nn.Module) -> tuple[int, ...]:
        """The arguments that tell `part` from the other parts: a pipeline stage's number; empty for
        a model."""
        return ()

    def parts(self, model: Any) -> list[nn.Module]:
        """The modules that make up this rank's share of the model."""
        return [model]

    def of_modules(self, part: nn.Module) -> dict[str, str | None]:
        """Path in `part` -> canonical name, for each of its modules, outermost first.

        None marks a module that is not recorded because the whole model has no such module.
        """
        return {path: canonical(path) or ROOT for path, _ in part.named_modules()}

    def of_parameters(self, part: nn.Module) -> dict[str, str]:
        """Path in `part` -> canonical name, for each of its parameters that the whole model has."""
        return {path: canonical(path) for path, _ in part.named_parameters()}

    def earlier_runs(self, part: nn.Module) -> dict[str, int]:
        """Canonical module name -> its runs in a micro-batch in other stages, before those of
        `part`."""
        return {}


class _Renamed(Naming):
    """The names of another naming, renamed by the user."""

    def __init__(self, naming: Naming, rename: Callable[..., str]) -> None:
        self._naming = naming
        self._rename = rename

    def parts(self, model: Any) -> list[nn.Module]:
        return self._naming.parts(model)

    def place(self, part: nn.Module) -> tuple[int, ...]:
        return self._naming.place(part)

    def of_modules(self, part: nn.Module) -> dict[str, str | None]:
        place = self.place(part)
        return {
            path: name if name is None or name == ROOT else self._rename(name, *place)
            for path, name in self._naming.of_modules(part).items()
        }

    def of_parameters(self, part: nn.Module) -> dict[str, str]:
        place = self.place(part)
        names = self._naming.of_parameters(part)
        return {path: self._rename(name, *place) for path, name in names.items()}

    def earlier_runs(self, part: nn.Module) -> dict[str, int]:
        place = self.place(part)
        earlier = self._naming.earlier_runs(part)
        return {self._rename(name, *place): count for name, count in earlier.items()}


def renamed(naming: Naming, rename: Callable[..., str] | None) -> Naming:
    """`naming` with every name but the root's mapped by `rename`, which also gets the stage's
    number."""
    return naming if rename is None else _Renamed(naming, rename)


@dataclass
class ModelNames:
    """The names of one model.

    model: the model, or the list of parts that the naming accepts.
    modules: canonical name -> module, outermost first. A wrapper and the module it wraps have one
        name, which maps to the wrapped module.
    parameters: canonical name -> parameter. A tied parameter has one entry, under its first name.
    owners: canonical parameter name -> the (module name, local name) pairs that hold it.
    earlier_runs: canonical module name -> its runs in a micro-batch in stages before this one.
    """

    model: Any
    modules: dict[str, nn.Module] = field(default_factory=dict)
    parameters: dict[str, nn.Parameter] = field(default_factory=dict)
    owners: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    earlier_runs: dict[str, int] = field(default_factory=dict)
    naming: Naming = field(default_factory=Naming)

    @staticmethod
    def of(model: Any, naming: Naming | None = None) -> ModelNames:
        """Names of all modules and parameters of `model`."""
        found = ModelNames(model, naming=naming or Naming())
        for part in found.naming.parts(model):
            found._add(part)
        return found

    def _add(self, part: nn.Module) -> None:
        modules, held = self.naming.of_modules(part), dict(part.named_modules())
        mine: dict[str, nn.Module] = {}
        for path, module_name in modules.items():
            if module_name is not None:
                mine[check_name(module_name, "module")] = held[path]
        for name in mine:
            if name in self.modules:
                raise TraceError(f"two parts of the model both have a module {name}")
        self.modules.update(mine)
        self.earlier_runs.update(self.naming.earlier_runs(part))
        parameters = dict(part.named_parameters())
        for path, name in self.naming.of_parameters(part).items():
            if check_name(name, "parameter") in self.parameters:
                raise TraceError(f"two parameters are both called {name} without their wrappers")
            self.parameters[name] = parameters[path]
        by_id = {id(parameter): name for name, parameter in self.parameters.items()}
        for path, module in held.items():
            for local, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
                owner = (modules[path] or canonical(path) or ROOT, local)
                if id(parameter) in by_id:
                    self.owners.setdefault(by_id[id(parameter)], []).append(owner)

    def check_unchanged(self) -> None:
        """Throws TraceError if modules or parameters of the model have been replaced since."""
        now = ModelNames.of(self.model, self.naming)
        for old, new in ((self.modules, now.modules), (self.parameters, now.parameters)):
            for name in {**old, **new}:
                if old.get(name) is not new.get(name):  # type: ignore[attr-defined]
                    raise TraceError(
                        f"{name} is not what it was when trace() was called; call trace() after "
                        "the model has been wrapped, parallelised, converted and loaded, and "
                        "model.reshard() on an FSDP model that ran forward without a backward"
                    )


def buffers_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The persistent buffers of a module itself."""
    for local, tensor in module._buffers.items():
        if tensor is not None and local not in module._non_persistent_buffers_set:
            yield local, tensor


def loss_name(names: ModelNames) -> str:
    """The name of the loss in data flow, and of the gradient that arrives at it."""
    return _LOSS_BESIDE if LOSS in names.modules else LOSS


# The name of the scalar by which the script multiplied the gradients of a step.
GRADIENT_FACTOR = "main_grad.factor"


def inner_factor_name(loss: str) -> str:
    """The name of the scalar that a loss was multiplied by before it was recorded.

    loss: what `loss_name` says.
    """
    return f"{loss}.factor"
