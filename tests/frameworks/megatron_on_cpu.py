"""Lets Megatron-core train on the CPU with gloo. The tests' side of the bargain; no collector code.

Everything here stands in for a CUDA device; what is computed and communicated is Megatron's own.
"""

from __future__ import annotations

import functools

import torch

# What is asked for a device: to make tensors there.
_MAKE = ("arange", "empty", "empty_like", "full", "full_like", "ones", "ones_like", "rand", "randn")
_MAKE += ("randint", "randperm", "tensor", "zeros", "zeros_like", "as_tensor", "eye", "linspace")
_MAKE_LIKE = ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "to")


def _on_cpu(function):
    """The function, which makes on the CPU what it is told to make on a CUDA device."""

    @functools.wraps(function)
    def called(*args, **kwargs):
        kwargs.pop("pin_memory", None)
        device = kwargs.get("device")
        if isinstance(device, int) or str(device).startswith("cuda"):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)

    return called


def _type_on_cuda(type_of):
    """Tensor.type, which names types as CUDA's: Megatron's optimizers sort parameters by them."""

    def called(tensor, *args, **kwargs):
        found = type_of(tensor, *args, **kwargs)
        return found.replace("torch.", "torch.cuda.", 1) if isinstance(found, str) else found

    return called


def _uneven(all_gather):
    """all_gather, which gloo does not do of uneven tensors."""

    def called(parts, part, group=None, **kwargs):
        if all(one.shape == part.shape for one in parts):
            return all_gather(parts, part, group=group, **kwargs)
        parts[torch.distributed.get_rank(group)].copy_(part)
        for rank, one in enumerate(parts):
            torch.distributed.broadcast(one, group=group, group_src=rank)
        return None

    return called


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
    for owner, names in ((torch, _MAKE), (torch.Tensor, _MAKE_LIKE)):
        for name in names:
            setattr(owner, name, _on_cpu(getattr(owner, name)))
    torch.distributed.all_gather = _uneven(torch.distributed.all_gather)
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor
    torch.Tensor.type = _type_on_cuda(torch.Tensor.type)
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
