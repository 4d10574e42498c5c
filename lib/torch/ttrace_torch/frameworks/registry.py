"""The frameworks that `trace(framework=...)` knows: ours, and those that a job registers."""

from __future__ import annotations

from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.framework import Framework

# Words of `trace(framework=...)` that are no framework's.
_RESERVED = ("auto", Framework.name)

_registered: dict[str, type[Framework]] = {}


def register_framework(cls: type[Framework]) -> type[Framework]:
    """Makes `trace(framework=cls.name)` and, where `cls.made(model)` is true, "auto" use `cls`.

    Usable as a decorator. The last one registered is asked first, so that an adapter of one's own
    takes what PyTorch's would take as well. Registering the same class again does nothing.

    Throws TraceError if `cls` is no Framework with a `name` and a `made` of its own, or the name
    is another one's.
    """
    if not (isinstance(cls, type) and issubclass(cls, Framework)):
        raise TraceError(f"register_framework({cls!r}): give a class derived from tt.Framework")
    if cls.made is Framework.made or cls.name in _RESERVED:
        raise TraceError(
            f"register_framework({cls.__name__}): a framework says its `name`, none of "
            f"{', '.join(_RESERVED)}, and which models are its own by `made(model)`"
        )
    known = _registered.get(cls.name)
    if known is not None and known is not cls:
        raise TraceError(
            f"register_framework({cls.__name__}): {known.__module__}.{known.__name__} has the "
            f"name {cls.name!r} already"
        )
    _registered[cls.name] = cls
    return cls


def framework_of(model: Any, name: str) -> Framework:
    """The adapter called `name`; with "auto", that of the framework that made the model.

    Throws TraceError for an unknown name, and for a model that is not of the named framework.
    """
    if name == "auto":
        made = [cls for cls in reversed(_registered.values()) if cls.made(model)]
        return made[0](model) if made else Framework(model)
    if name == Framework.name:
        return Framework(model)
    if name not in _registered:
        raise TraceError(
            f"framework={name!r} is none of {', '.join((*_RESERVED, *sorted(_registered)))}"
        )
    return _registered[name](model)
