"""Lets megatron-fsdp train on the CPU with gloo. The tests' side of the bargain; no collector code.

Everything here stands in for a CUDA device; what is computed and communicated is its own, but that
the mean is gloo's: it cannot scale in a sum.
"""

from __future__ import annotations

import sys
import types

import torch


class _Torch(types.ModuleType):
    """torch, whose CUDA devices are the CPU."""

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def device(*_):
        return torch.device("cpu")


class _Stream:
    """A CUDA stream, or event, on a machine without: everything has happened at once."""

    def __getattr__(self, name):
        return lambda *_, **__: self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def install():
    """To be called once; forked processes have it too."""
    # It takes the settings of a Megatron-core that is installed, of whichever release.
    sys.modules["megatron.core"] = None
    cuda = torch.cuda
    torch.Tensor.cuda = lambda self, *_, **__: self
    cuda.current_device = lambda: torch.device("cpu")
    cuda.synchronize = cuda.empty_cache = lambda *_: None
    cuda.Stream = cuda.Event = cuda.stream = lambda *_, **__: _Stream()
    cuda.current_stream = lambda *_: _Stream()
    torch.distributed._make_nccl_premul_sum = lambda _: torch.distributed.ReduceOp.AVG
    from megatron_fsdp import megatron_fsdp

    megatron_fsdp.torch = _Torch("torch")
