"""Adapters of training frameworks, each behind the interface `Framework`.

None of the frameworks is imported here: an adapter uses what the job has imported already.
"""

from __future__ import annotations

from ttrace_torch.frameworks.deepspeed import DeepSpeed
from ttrace_torch.frameworks.framework import Framework
from ttrace_torch.frameworks.megatron import Megatron
from ttrace_torch.frameworks.megatron_fsdp import MegatronFSDP
from ttrace_torch.frameworks.native import Native
from ttrace_torch.frameworks.registry import framework_of, register_framework

__all__ = ["Framework", "framework_of", "register_framework"]

# From the innermost to the outermost, because the last one is asked first: DeepSpeed's engine may
# hold a model of Megatron-core, and that one modules that PyTorch has wrapped.
for _framework in (Native, Megatron, MegatronFSDP, DeepSpeed):
    register_framework(_framework)
