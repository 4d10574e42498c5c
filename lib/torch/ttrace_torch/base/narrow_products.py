"""Whether a GPU rounds the factors of float32 products to TF32, by torch's settings.

By default the factors of convolutions and of cuDNN's recurrent layers are rounded, and those of
matrix products are not:
https://docs.pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere
"""

from __future__ import annotations

import os
from typing import Any

import torch

TF32 = "tf32"
# The first compute capability with TF32: Ampere.
_FIRST_CAPABILITY = 8
# A variable of the driver's libraries: 0 switches TF32 off, whatever a framework says.
_OVERRIDE = "NVIDIA_TF32_OVERRIDE"


def narrow_products(recurs: bool = False) -> dict[str, str]:
    """The manifest's `run.products`, from the current settings: "tf32" under "matmul" and
    "convolution" where a GPU rounds the factors; empty where it rounds neither.

    recurs: whether the model has recurrent layers. cuDNN multiplies matrices in them by a setting
        of its own, and a formula does not say which products these are.
    """
    if not torch.cuda.is_available() or os.environ.get(_OVERRIDE) == "0":
        return {}
    if torch.version.hip is None and torch.cuda.get_device_capability()[0] < _FIRST_CAPABILITY:
        return {}
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    found = {
        "matmul": _is_on(matmul, matmul)
        or (recurs and _is_on(getattr(cudnn, "rnn", cudnn), cudnn)),
        "convolution": _is_on(getattr(cudnn, "conv", cudnn), cudnn),
    }
    return {name: TF32 for name, rounds in found.items() if rounds}


def _is_on(settings: Any, older: Any) -> bool:
    """Whether TF32 is on.

    settings: the object with `fp32_precision`, which torch has since 2.9.
    older: the object with `allow_tf32`. It decides where `fp32_precision` is "none", as it is for
        convolutions after `allow_tf32 = False`.
    """
    precision = getattr(settings, "fp32_precision", "none")
    if precision != "none":
        return bool(precision == TF32)
    try:
        return bool(older.allow_tf32)
    except RuntimeError:  # a script has set both, the newer one to "none"
        return False
