"""The names that the collector reads from Megatron-core's objects, with their types. Nothing is
imported.

Every name here is public. Names that only some releases or classes have are not listed: the code
that needs one asks with `getattr` and a default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Protocol

import torch
from torch import distributed, nn

ProcessGroup = distributed.ProcessGroup
# Where a parameter begins and ends in its buffer, and the number of its bucket.
PlaceInBuffer = tuple[int, int, int]


class ParallelState(Protocol):
    """The module `megatron.core.parallel_state`."""

    def model_parallel_is_initialized(self) -> bool: ...

    def get_pipeline_model_parallel_world_size(self) -> int: ...
    def get_data_parallel_world_size(self) -> int: ...
    def get_context_parallel_world_size(self) -> int: ...
    def get_tensor_model_parallel_world_size(self) -> int: ...
    def get_expert_data_parallel_world_size(self) -> int: ...
    def get_expert_model_parallel_world_size(self) -> int: ...
    def get_expert_tensor_parallel_world_size(self) -> int: ...

    def get_pipeline_model_parallel_group(self) -> ProcessGroup: ...
    def get_data_parallel_group(self) -> ProcessGroup: ...
    def get_context_parallel_group(self) -> ProcessGroup: ...
    def get_tensor_model_parallel_group(self) -> ProcessGroup: ...
    def get_expert_data_parallel_group(self) -> ProcessGroup: ...
    def get_expert_model_parallel_group(self) -> ProcessGroup: ...
    def get_expert_tensor_parallel_group(self) -> ProcessGroup: ...

    def get_data_parallel_rank(self) -> int: ...
    def get_expert_model_parallel_rank(self) -> int: ...


class Schedules(Protocol):
    """The module `megatron.core.pipeline_parallel.schedules`."""

    forward_step: Callable[..., Any]


class ModelParallelConfig(Protocol):
    """`megatron.core.model_parallel_config.ModelParallelConfig`."""

    sequence_parallel: bool
    finalize_model_grads_func: Callable[..., Any] | None


class TransformerConfig(ModelParallelConfig, Protocol):
    """`megatron.core.transformer.transformer_config.TransformerConfig`."""

    gated_linear_unit: bool
    num_query_groups: int


class Model(Protocol):
    """`megatron.core.transformer.module.MegatronModule`: a chunk of a model, without wrappers."""

    config: TransformerConfig


class Bucket(Protocol):
    """`megatron.core.distributed.param_and_grad_buffer._ParamAndGradBucket`, reduced at once."""

    grad_data: torch.Tensor
    offset: int


class GradientBuffer(Protocol):
    """`megatron.core.distributed.param_and_grad_buffer._ParamAndGradBuffer`."""

    param_index_map: Mapping[nn.Parameter, PlaceInBuffer]
    buckets: Sequence[Bucket]
    data_parallel_world_size: int


class DataParallel(Protocol):
    """`megatron.core.distributed.DistributedDataParallel`."""

    buffers: Sequence[GradientBuffer]
    expert_parallel_buffers: Sequence[GradientBuffer]


class OptimizerConfig(Protocol):
    """`megatron.core.optimizer.OptimizerConfig`."""

    clip_grad: float


class Optimizer(Protocol):
    """`megatron.core.optimizer.MegatronOptimizer`."""

    config: OptimizerConfig
    # True if the step was made, the gradient norm or None, and the number of zeros.
    step: Callable[..., Sequence[Any]]


class InnerOptimizer(Protocol):
    """`megatron.core.optimizer.MegatronOptimizer` with a torch optimizer inside."""

    optimizer: torch.optim.Optimizer
