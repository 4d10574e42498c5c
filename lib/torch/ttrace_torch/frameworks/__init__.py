"""What training frameworks know of their models, each behind the interface `Framework`.

No framework is imported here; one that the job uses has been imported by then.
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
    """The adapter called `name`, or with "auto" the one that the model's classes ask for.

    Throws TraceError for an unknown name, and for a model that is not of the framework named.
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
    """What made the model; of several the outermost."""
    if pipeline_of(model) is not None:
        return "pytorch"
    if DeepSpeed.made(model):
        return "deepspeed"
    if Megatron.made(model):
        return "megatron"
    return "pytorch" if Native.made(model) else "none"
