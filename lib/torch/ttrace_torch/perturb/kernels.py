"""Noise runs compute convolutional networks with other kernels than the reference.

Each layer of a candidate adds the rounding of its own kernels: oneDNN adds up the products of a
convolution in blocks, PyTorch's own kernels one after the other; the statistics of a norm are added
up in binary64 or binary32, as the tensor lies in memory; sums are cut by the number of threads. In
transformers one perturbed activation at the front shows as much. In networks with convolutions it
does not: a healthy ResNet-50 without oneDNN was 1.5 times as far off as three noise runs allowed, a
wav2vec 2 twice. So a noise run of such a network takes other kernels. On a GPU these are the ones
of the other layout in memory, since cuDNN adds up in another order where channels lie side by side,
and the deterministic ones where the job takes others, or vice versa: on an H100 the deterministic
gradient of the weight of a first convolution is off by 76 ε, the other by 4. All multiply with the
same precision.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.backends import cudnn, mkldnn

# What computes in another order where channels lie side by side, by the type of the device.
_TURNED = {
    "cpu": (nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm),
    "cuda": (nn.BatchNorm2d, nn.BatchNorm3d, nn.Conv2d, nn.Conv3d),
}
# A weight of output channels, input channels and at least one extent of the window.
_FEWEST_DIMENSIONS = 3
# By dimensions of a batch: the layout in memory in which channels lie side by side.
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


# Whether this process was forked since this was imported. Its OpenMP would wait for ever for the
# threads of its parent, if that ever had several.
_forked = False


def _note_fork() -> None:
    global _forked  # noqa: PLW0603
    _forked = True


os.register_at_fork(after_in_child=_note_fork)


@contextmanager
def other_kernels(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Takes other kernels from the first convolution that runs until the context ends.

    Does nothing for networks that have no convolution's weight, have a parameter narrower than
    float32, or run under autocast: oneDNN computes products of narrow types too, which are many
    times slower without it.
    """
    modules = list(modules)
    own = {module: list(module.parameters(recurse=False)) for module in modules}
    wide = all(
        parameter.dtype.itemsize >= 4
        for parameters in own.values()
        for parameter in parameters
        if parameter.is_floating_point()
    )
    convolving = [
        module
        for module, parameters in own.items()
        if any(parameter.dim() >= _FEWEST_DIMENSIONS for parameter in parameters)
    ]
    with ExitStack() as stack:
        taken: list[bool] = []

        def begin(module: nn.Module, args: Any) -> None:
            if not taken and not torch.is_autocast_enabled("cpu"):
                taken.append(True)
                _take_others(stack)

        for module in convolving if wide else ():
            stack.callback(module.register_forward_pre_hook(begin).remove)
        for module in modules if wide and convolving else ():
            _turn_channels(module, stack)
        yield


def _take_others(stack: ExitStack) -> None:
    # `flags` is not used: it sets all other flags as well, one of which warns.
    stack.callback(mkldnn.set_flags, mkldnn.enabled)
    mkldnn.set_flags(not mkldnn.enabled)  # type: ignore[no-untyped-call]
    if not torch.backends.flags_frozen():  # type: ignore[no-untyped-call]
        stack.callback(setattr, cudnn, "deterministic", cudnn.deterministic)
        cudnn.deterministic = not cudnn.deterministic
    if not _forked:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(torch.get_num_threads() + 1)


def _turn_channels(module: nn.Module, stack: ExitStack) -> None:
    """Lets a module compute with channels last where they lie first, and vice versa.

    Modules before and after it, forward and backward, get their values in the usual layout.
    """
    devices = tuple(device for device, kinds in _TURNED.items() if isinstance(module, kinds))

    def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        formats = _formats(args, devices)
        return (
            None if formats is None else (args[0].contiguous(memory_format=formats[1]), *args[1:])
        )

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        formats = _formats(args, devices)
        if formats is None:
            return None
        turned, given = formats  # `args` are those that `before` returned
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient.contiguous(memory_format=turned))
        return output.contiguous(memory_format=given)

    if devices:
        stack.callback(module.register_forward_pre_hook(before).remove)
        stack.callback(module.register_forward_hook(after).remove)


def _formats(
    args: tuple[Any, ...], devices: tuple[str, ...]
) -> tuple[torch.memory_format, torch.memory_format] | None:
    """How a module's input lies in memory, and the other way; None where there is no other, or the
    input is on none of the devices."""
    last = _CHANNELS_LAST.get(args[0].dim()) if args else None
    if last is None or args[0].device.type not in devices:
        return None
    first = torch.contiguous_format
    return (first, last) if args[0].is_contiguous() else (last, first)
