"""Adapters of training frameworks, each behind the interface `Framework`.

No framework is imported here. A framework that the job uses has been imported already.
"""

from __future__ import annotations

from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.deepspeed import DeepSpeed
from ttrace_torch.frameworks.framework import Framework
from ttrace_torch.frameworks.megatron import Megatron
from ttrace_torch.frameworks.native import Native
from ttrace_torch.frameworks.pipelining import pipeline_of

_NAMES = ("auto", "deepspeed", "megatron", "pytorch", "none")


def framework_of(model: Any, name: str) -> Framework:
    """The adapter called `name`; with "auto", the adapter of the model's classes.

    Throws TraceError for an unknown name, and for a model that is not of the named framework.
    """
    if name not in _NAMES:
        raise TraceError(f"framework={name!r} is none of {', '.join(_NAMES)}")
    if name == "auto":
        name = _name_of(model)
    if name == "deepspeed":
        return DeepSpeed(model)
    if name == "megatron":
        return Megatron(model)
    return Native(model) if name == "pytorch" else Framework()


def _name_of(model: Any) -> str:
    """The framework that made the model; the outermost of several."""
    if pipeline_of(model) is not None:
        return "pytorch"
    if DeepSpeed.made(model):
        return "deepspeed"
    if Megatron.made(model):
        return "megatron"
    return "pytorch" if Native.made(model) else "none"
