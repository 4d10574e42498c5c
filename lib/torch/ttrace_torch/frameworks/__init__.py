"""Adapters of training frameworks, each behind the interface `Framework`.

No framework is imported here. A framework that the job uses has been imported already.
"""

from __future__ import annotations

from ttrace_torch.frameworks.deepspeed import DeepSpeed
from ttrace_torch.frameworks.framework import Framework
from ttrace_torch.frameworks.megatron import Megatron
from ttrace_torch.frameworks.megatron_fsdp import MegatronFSDP
from ttrace_torch.frameworks.native import Native
from ttrace_torch.frameworks.registry import framework_of, register_framework

__all__ = ["Framework", "framework_of", "register_framework"]

# The last one is asked first: DeepSpeed's engine may hold a model of Megatron-core, and either a
# model that PyTorch has wrapped.
for _framework in (Native, Megatron, MegatronFSDP, DeepSpeed):
    register_framework(_framework)
