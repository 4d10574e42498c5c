"""Whether a GPU rounds the factors of float32 products to TF32, by torch's settings.

https://docs.pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere: by default convolutions do, and
products of matrices do not.
"""

from __future__ import annotations

import os
from typing import Any

import torch

TF32 = "tf32"
# The first GPUs that have it: Ampere.
_FIRST_CAPABILITY = 8
# A variable of the driver's libraries: 0 switches TF32 off, whatever a framework says.
_OVERRIDE = "NVIDIA_TF32_OVERRIDE"


def narrow_products() -> dict[str, str]:
    """The manifest's `run.products`, by the settings at this moment: "matmul" and "convolution" as
    far as a GPU rounds their factors."""
    if not torch.cuda.is_available() or os.environ.get(_OVERRIDE) == "0":
        return {}
    if torch.version.hip is None and torch.cuda.get_device_capability()[0] < _FIRST_CAPABILITY:
        return {}
    matmul = _is_on(torch.backends.cuda.matmul, default=False)
    cudnn = torch.backends.cudnn
    convolution = _is_on(getattr(cudnn, "conv", cudnn), default=True)
    found = {"matmul": matmul, "convolution": convolution}
    return {name: TF32 for name, rounds in found.items() if rounds}


def _is_on(settings: Any, default: bool) -> bool:
    # Since torch 2.9; older names raise an error where a script has used the newer ones.
    precision = getattr(settings, "fp32_precision", None)
    if precision is None:
        return bool(settings.allow_tf32)
    return default if precision == "none" else bool(precision == TF32)
