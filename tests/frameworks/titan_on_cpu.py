"""Lets torchtitan's Trainer train on the CPU with gloo. The tests' side; no collector code."""

from __future__ import annotations

from types import SimpleNamespace

import torch

# What torchtitan asks of a device. It has a memory, of which nothing is used.
_DEVICE = {
    "set_device": lambda *_: None,
    "current_device": lambda: 0,
    "device_count": lambda: 1,
    "get_device_name": lambda *_: "cpu",
    "get_device_properties": lambda *_: SimpleNamespace(total_memory=1 << 30, name="cpu"),
    "memory_stats": lambda *_: {},
    "reset_peak_memory_stats": lambda: None,
    "empty_cache": lambda: None,
    "synchronize": lambda: None,
}


def install():
    """To be called once, before torchtitan's trainer is imported; forked processes have it too."""
    from torchtitan.tools import utils

    utils.device_type, utils.device_module = "cpu", SimpleNamespace(**_DEVICE)
    # What its init_distributed would set, which leaves a process group that is there alone.
    torch.autograd.set_multithreading_enabled(False)

    from torch.distributed.fsdp import FSDPModule

    divide = FSDPModule.set_gradient_divide_factor

    def summed(module, factor):
        # Gloo has no reduction that multiplies, so the sum is divided apart.
        module.set_force_sum_reduction_for_comms(True)
        divide(module, factor)

    FSDPModule.set_gradient_divide_factor = summed
