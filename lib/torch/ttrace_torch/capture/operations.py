"""Operations of modules and of autograd nodes, and the place of a call in the user's code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch
from torch import nn

from ttrace_torch.rewrite.overwrite import NODES

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep

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

# Limit of operations per list, as many as a report shows; a loss may have hundreds.
MOST = 16
# Nodes that are no operations of the job: gradient accumulation, and the nodes of a plan.
_NO_OPERATIONS = frozenset({"AccumulateGrad", *NODES})


def add_operation(node: Any, operations: dict[str, None]) -> None:
    """Adds the operation of an autograd node to `operations`, up to the limit."""
    name = str(node.name()).rpartition("::")[2]
    if len(operations) < MOST and name not in _NO_OPERATIONS:
        operations.setdefault(name)


def merge_operations(calls: Iterable[dict[str, None]]) -> list[str]:
    """The operations of several calls as one list."""
    return list(dict.fromkeys(name for call in calls for name in call))[:MOST]


def convolves(modules: Iterable[nn.Module], operations: Iterable[str]) -> bool:
    """Whether a step has convolutions that a GPU may take in TF32: those of modules, or else
    functions that autograd shows. Kernels for one channel at a time never do. `operations`: the
    names of autograd's nodes."""
    own = [module for module in modules if isinstance(module, nn.modules.conv._ConvNd)]
    if own:
        return any(not 1 < module.groups == module.in_channels for module in own)
    return any(name.startswith("Convolution") for name in operations)


def recurs(modules: Iterable[nn.Module]) -> bool:
    """Whether a model has recurrent layers, whose steps a GPU takes by kernels of their own."""
    return any(isinstance(module, nn.RNNBase) for module in modules)


def makes_another_output(module: nn.Module, index: int) -> bool:
    """Whether the module computes another output from this one. The gradient of this one then has a
    part that the module adds, or lacks it where a GPU computes both at once."""
    return index == 1 and isinstance(module, nn.LSTMCell)  # the state of the cell


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
