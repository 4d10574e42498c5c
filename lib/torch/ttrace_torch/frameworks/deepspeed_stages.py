"""Chooses the partitions of an engine's optimizer; partitions of wider copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn

from ttrace_torch.frameworks.deepspeed_api import (
    Engine,
    PartitionedParameter,
    ProcessGroup,
    WiderInShards,
    WiderWhole,
)
from ttrace_torch.frameworks.deepspeed_partitions import (
    NOTHING,
    GradientPartitions,
    ParameterPartitions,
    Partitions,
    Updated,
    ranges_in_group,
)
from ttrace_torch.layout.placements import Flat


class FlatCopies(Partitions):
    """Gradients are replicated; the optimizer updates this rank's shard of a wider copy of each
    group.

    In bf16 with fp32 gradients each rank has an even shard of the flat copy; in fp16 without ZeRO
    each has all of it.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[nn.Parameter]],
        flats: Sequence[torch.Tensor],
        ranks: Sequence[ProcessGroup] | None = None,
    ) -> None:
        """ranks: for each group the process group that shards its copy; None if the copy is
        whole."""
        self._updated: dict[int, Updated] = {}
        for number, (group, flat) in enumerate(zip(groups, flats)):
            world = 1 if ranks is None else torch.distributed.get_world_size(ranks[number])
            place = 0 if ranks is None else torch.distributed.get_rank(ranks[number])
            share = flat.numel()
            rows = zip(group, ranges_in_group(group, [0] * len(group), share, world))
            for parameter, (start, ranges) in rows:
                first, stop = ranges[place]
                offset = start + first - share * place
                self._updated[id(parameter)] = Updated(
                    flat,
                    slice(offset, offset + stop - first) if first < stop else NOTHING,
                    {"dp": Flat(ranges, parameter.shape)} if world > 1 else None,
                )

    def updated(self, parameter: nn.Parameter) -> Updated | None:
        return self._updated.get(id(parameter))


def partitions_of(engine: Engine, world: int) -> Partitions:
    """The partitions of the engine's optimizer over `world` ranks."""
    optimizer: Any = getattr(engine, "optimizer", None)
    cut = [cast(PartitionedParameter, p) for p in engine.parameters() if hasattr(p, "ds_tensor")]
    if cut:
        return ParameterPartitions(optimizer, cut, world)
    if hasattr(optimizer, "round_robin_bit16_groups"):
        return GradientPartitions(optimizer, world)
    if hasattr(optimizer, "fp32_groups_flat_partition"):
        shards = cast(WiderInShards, optimizer)
        flats, ranks = shards.fp32_groups_flat_partition, shards.real_dp_process_group
        return FlatCopies(shards.bf16_groups, flats, ranks)
    if hasattr(optimizer, "fp32_groups_flat"):
        whole = cast(WiderWhole, optimizer)
        return FlatCopies(whole.fp16_groups, whole.fp32_groups_flat)
    return Partitions()
