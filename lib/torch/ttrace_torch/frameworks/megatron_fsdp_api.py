"""The names that the collector reads from megatron-fsdp's objects, with their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh


class Shard(Protocol):
    """`megatron_fsdp.param_and_grad_buffer.ShardBucketIndex`: this rank's part of a bucket."""

    size: int


class BucketIndex(Protocol):
    """`megatron_fsdp.param_and_grad_buffer.BucketIndex`: its place among all elements."""

    global_data_index: int


class ItemIndex(Protocol):
    """`megatron_fsdp.param_and_grad_buffer.TensorItemIndex`: a parameter's place among all
    elements."""

    global_data_index: int
    size: int


class Buffer(Protocol):
    """`megatron_fsdp.param_and_grad_buffer.DataParallelBuffer`."""

    shard_bucket_index: Shard
    bucket_index: BucketIndex
    item_index_map: Mapping[int, ItemIndex]


class ParameterGroup(Protocol):
    """`megatron_fsdp.param_and_grad_buffer.ParameterGroup`."""

    params: Sequence[nn.Parameter]
    main_weight_buffer: Buffer | None
    model_weight_buffer: Buffer


class BucketingPolicy(Protocol):
    """`megatron_fsdp.param_and_grad_buffer.BucketingPolicy`."""

    data_parallel_sharding_strategy: str


class Weight(Protocol):
    """`torch.distributed.tensor.DTensor` of a main weight."""

    device_mesh: DeviceMesh
    shape: torch.Size


class Buffers(Protocol):
    """`megatron_fsdp.param_and_grad_buffer.ParamAndGradBuffer`."""

    bucketing_policy: BucketingPolicy
    parameter_groups: Sequence[ParameterGroup]
    param_to_name: Mapping[nn.Parameter, str]
    dist_main_weight: Mapping[str, Weight]
