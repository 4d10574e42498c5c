"""For people and for replay: where a module was called, and which known operation it is."""

from __future__ import annotations

import os
import sys
from types import FrameType

import torch
from torch import nn

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(__file__) + os.sep

_OPERATIONS = {
    "Linear": "linear",
    "Embedding": "embedding",
    "LayerNorm": "layer_norm",
    "RMSNorm": "rms_norm",
    "GroupNorm": "group_norm",
    "BatchNorm1d": "batch_norm",
    "BatchNorm2d": "batch_norm",
    "Conv1d": "conv1d",
    "Conv2d": "conv2d",
    "ReLU": "relu",
    "GELU": "gelu",
    "SiLU": "silu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "Dropout": "dropout",
    "Identity": "identity",
    "CrossEntropyLoss": "cross_entropy",
    "MSELoss": "mse",
}


def operation(module: nn.Module) -> str | None:
    """The operation of a torch.nn module or of a subclass with the same forward, else None."""
    for name, op in _OPERATIONS.items():
        cls = getattr(nn, name, None)
        if cls is not None and isinstance(module, cls):
            return op if type(module).forward is cls.forward else None
    return None


def call_site() -> str | None:
    """The innermost frame of the user's code, as "model.py:87 Block.forward"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((_TORCH, _OWN, "<frozen")):
            return f"{os.path.basename(path)}:{frame.f_lineno} {_function(frame)}"
        frame = frame.f_back
    return None


def _function(frame: FrameType) -> str:
    code = frame.f_code
    name = getattr(code, "co_qualname", None)
    if name is None:
        owner = frame.f_locals.get("self")
        name = f"{type(owner).__qualname__}.{code.co_name}" if owner is not None else code.co_name
    return str(name).rpartition("<locals>.")[2]
