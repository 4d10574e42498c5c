"""The names that the collector reads from DeepSpeed's objects, with their types. Nothing is
imported.

Names that only some engines and optimizers have are not listed: the code that needs one asks with
`getattr` and a default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Protocol

import torch
from torch import distributed, nn

Parameters = Sequence[nn.Parameter]
ProcessGroup = distributed.ProcessGroup


class Engine(Protocol):
    """`deepspeed.runtime.engine.DeepSpeedEngine`."""

    module: nn.Module
    optimizer: Any  # one of the optimizers below, or `basic_optimizer` itself
    basic_optimizer: torch.optim.Optimizer
    seq_data_parallel_group: ProcessGroup | None
    micro_steps: int
    backward: Callable[..., Any]

    def parameters(self) -> Iterator[nn.Parameter]: ...
    def gradient_accumulation_steps(self) -> int: ...
    def gradient_clipping(self) -> float: ...
    def get_global_grad_norm(self) -> torch.Tensor | float | None: ...
    def was_step_applied(self) -> bool: ...


class GradientPartitioned(Protocol):
    """`deepspeed.runtime.zero.stage_1_and_2.DeepSpeedZeroOptimizer`."""

    round_robin_bit16_groups: Sequence[Parameters]
    partition_size: Sequence[int]
    real_dp_process_group: Sequence[ProcessGroup]
    averaged_gradients: Mapping[int, Sequence[torch.Tensor] | None]
    single_partition_of_fp32_groups: Sequence[torch.Tensor]


class PartitionedParameter(Protocol):
    """What `deepspeed.runtime.zero.partition_parameters.Init` makes of a parameter: its whole
    shape, and this rank's elements, padded at the end."""

    ds_shape: torch.Size
    ds_tensor: torch.Tensor
    requires_grad: bool


class ParameterPartitioned(Protocol):
    """`deepspeed.runtime.zero.stage3.DeepSpeedZeroOptimizer_Stage3`."""

    fp16_groups: Sequence[Sequence[PartitionedParameter]]
    averaged_gradients: Mapping[int, Sequence[torch.Tensor] | None]


class WiderInShards(Protocol):
    """`deepspeed.runtime.bf16_optimizer.BF16_Optimizer`."""

    bf16_groups: Sequence[Parameters]
    fp32_groups_flat_partition: Sequence[torch.Tensor]
    real_dp_process_group: Sequence[ProcessGroup]


class WiderWhole(Protocol):
    """`deepspeed.runtime.fp16.fused_optimizer.FP16_Optimizer`."""

    fp16_groups: Sequence[Parameters]
    fp32_groups_flat: Sequence[torch.Tensor]
