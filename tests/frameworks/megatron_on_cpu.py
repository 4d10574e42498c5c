"""Lets Megatron-core train on the CPU with gloo. The tests' side of the bargain; no collector code.

Everything here stands in for a CUDA device; what is computed and communicated is Megatron's own.
"""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode


class _OnCpu(TorchFunctionMode):
    """Sends what asks for a CUDA device to the CPU, and names tensor types as CUDA's."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        kwargs.pop("pin_memory", None)
        if function is torch.Tensor.cuda:
            return args[0]
        device = kwargs.get("device")
        if isinstance(device, int) or str(device).startswith("cuda"):
            kwargs["device"] = "cpu"
        if function is torch.Tensor.type and len(args) == 1 and not kwargs:
            # Megatron's optimizers sort parameters by these strings.
            return function(*args).replace("torch.", "torch.cuda.", 1)
        return function(*args, **kwargs)


class SequenceParallelNorm:
    """Makes norms for sequence parallelism, which those of the local specification refuse."""

    def __new__(cls, config, hidden_size, eps=1e-5):
        kinds = {"LayerNorm": torch.nn.LayerNorm, "RMSNorm": torch.nn.RMSNorm}
        norm = kinds[config.normalization](hidden_size, eps=eps)
        for parameter in norm.parameters():
            parameter.sequence_parallel = config.sequence_parallel
        return norm


class _Stream:
    """A CUDA stream, or event, on a machine without: everything has happened at once."""

    def __getattr__(self, name):
        return lambda *_, **__: self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def install():
    """To be called once, before Megatron is imported; forked processes have it too."""
    _OnCpu().__enter__()
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.manual_seed = torch.manual_seed
    torch.cuda.get_rng_state = lambda *_: torch.get_rng_state()

    torch.cuda.Stream = torch.cuda.stream = lambda *_, **__: _Stream()
    torch.cuda.current_stream = lambda *_: _Stream()

    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    moe_utils.te_general_gemm = getattr(moe_utils, "te_general_gemm", None)
    token_dispatcher.maybe_move_tensor_to_cpu = _moved


def _moved(tensor, as_numpy=False, **_):
    # Gloo takes no tensors as the sizes of an uneven exchange.
    return tensor.numpy() if as_numpy and isinstance(tensor, torch.Tensor) else tensor
