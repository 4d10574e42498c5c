"""Canonical names: what a module or parameter is called in the whole, unwrapped model."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from torch import nn

from ttrace_torch.errors import TraceError

ROOT = "(model)"

# Path components that wrappers put in: DistributedDataParallel, torch.compile, FSDP, activation
# checkpointing.
WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


def canonical(path: str) -> str:
    """`path` without the wrappers' components; empty for the model itself."""
    return ".".join(part for part in path.split(".") if part not in WRAPPERS)


def value_name(name: str, index: int) -> str:
    """Name of a module's `index`-th input or output tensor."""
    return name if index == 0 else f"{name}[{index}]"


def check_name(name: str, what: str) -> str:
    """`name` itself. Throws where the trace format does not allow it."""
    if (
        not 1 <= len(name.encode()) <= 512
        or name in (".", "..")
        or any(c == "/" or ord(c) < 0x20 for c in name)
    ):
        raise TraceError(
            f"{what} {name!r} cannot be recorded: a name has 1 to 512 bytes and neither '/' nor "
            "control characters"
        )
    return name


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a glob pattern matches, case-sensitively."""
    return [name for name in names if fnmatchcase(name, pattern)]


def nearest(pattern: str, names: Iterable[str]) -> str:
    """A clause for error messages: the names most like `pattern`."""
    known = list(names)
    close = difflib.get_close_matches(pattern, known, n=3, cutoff=0.0)
    return "nearest: " + ", ".join(close) if close else "there are none"


@dataclass
class ModelNames:
    """The names of one model.

    modules: canonical name -> module, outermost first; a wrapper gives way to what it wraps.
    parameters: canonical name -> parameter; a tied parameter stands once, under its first name.
    owners: canonical parameter name -> the (module name, local name) pairs that hold it.
    """

    model: nn.Module
    modules: dict[str, nn.Module] = field(default_factory=dict)
    parameters: dict[str, nn.Parameter] = field(default_factory=dict)
    owners: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    @staticmethod
    def of(model: nn.Module) -> ModelNames:
        """Names of all modules and parameters of `model`."""
        found = ModelNames(model)
        for path, module in model.named_modules():
            found.modules[check_name(canonical(path) or ROOT, "module")] = module
        for path, parameter in model.named_parameters():
            name = check_name(canonical(path), "parameter")
            if name in found.parameters:
                raise TraceError(f"two parameters are both called {name} without their wrappers")
            found.parameters[name] = parameter
        by_id = {id(parameter): name for name, parameter in found.parameters.items()}
        for path, module in model.named_modules():
            for local, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
                owner = (canonical(path) or ROOT, local)
                found.owners.setdefault(by_id[id(parameter)], []).append(owner)
        return found

    def check_unchanged(self) -> None:
        """Throws where modules or parameters of the model have since been replaced."""
        now = ModelNames.of(self.model)
        for old, new in ((self.modules, now.modules), (self.parameters, now.parameters)):
            for name in {**old, **new}:
                if old.get(name) is not new.get(name):  # type: ignore[attr-defined]
                    raise TraceError(
                        f"{name} is not what it was when trace() was called; call trace() after "
                        "the model has been wrapped, parallelised, converted and loaded, and "
                        "model.reshard() on an FSDP model that ran forward without a backward"
                    )
