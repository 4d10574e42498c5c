"""Trains cases with DeepSpeed, as `launching.py` says.

A case is what `train_deepspeed.main` reads; one with a "loop" is for `deepspeed_loops`, one without
a "stage" for plain PyTorch, and one with a "script" for that.
"""

from __future__ import annotations

import importlib
import os

import launching

os.environ.update(DS_ACCELERATOR="cpu")

import deepspeed  # noqa: E402
import deepspeed_loops  # noqa: E402
import train_deepspeed  # noqa: E402
import train_deepspeed_reference  # noqa: E402


def begin(rank, world):
    # Shared memory between CPUs, an extension in C++ that would be compiled first.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # DeepSpeed declines fp16 on CPUs that are slow at it.
    deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
    launching.begin_gloo(rank, world)
    deepspeed.init_distributed("gloo")


def train(case, out):
    script = deepspeed_loops if "loop" in case else train_deepspeed
    script = script if "stage" in case else train_deepspeed_reference
    if "script" in case:
        script = importlib.import_module(case["script"])
    script.main(case, out)


if __name__ == "__main__":
    launching.launch(begin, train)
