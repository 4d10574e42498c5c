"""ZeRO's partitions of parameters and final gradients: each rank's range of elements.

A layout needs the ranges of all ranks. They are computed from sizes and borders that every rank
knows, without communication.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple, cast

import torch
from torch import nn

from ttrace_torch.base.names import ModelNames
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.deepspeed_api import (
    GradientPartitioned,
    ParameterPartitioned,
    PartitionedParameter,
)
from ttrace_torch.layout.layouts import ParameterLayout
from ttrace_torch.layout.placements import Flat, Placements

Range = tuple[int, int]
NOTHING = slice(0, 0)


class Updated(NamedTuple):
    """This rank's shard of a flat tensor that the optimizer updates.

    part: slice of `flat`, empty if the rank has no element of the parameter.
    placements: placements of the shard; None for those of the main gradient.
    """

    flat: torch.Tensor
    part: slice
    placements: Placements | None = None


class Partitions:
    """ZeRO-0: parameters and gradients are replicated, as in plain data parallelism.

    ZeRO-1 with bf16 and fp32 gradients is the same: its reduction leaves whole gradients.
    """

    def layouts(self, names: ModelNames) -> dict[str, ParameterLayout]:
        """Canonical name -> layout, for the sharded parameters."""
        return {}

    def held(self, name: str, parameter: nn.Parameter, kind: str) -> torch.Tensor | None:
        """This rank's shard of the parameter, or for "main_grad" of its final gradient.

        Returns None if there is no gradient. Throws TraceError if gradients are not final.
        """
        if kind != "main_grad":
            return parameter
        # In bf16 with fp32 gradients the optimizer uses the wider, flat copy.
        wider: torch.Tensor | None = getattr(parameter, "_hp_grad", None)
        return parameter.grad if wider is None else wider.view_as(parameter)

    def updated(self, parameter: nn.Parameter) -> Updated | None:
        """The flat tensor that the optimizer updates in the parameter's place; None without one."""
        return None


class GradientPartitions(Partitions):
    """ZeRO-1 and 2: parameters are replicated, final gradients are sharded as flat groups.

    A group's parameters are concatenated and cut evenly, regardless of their borders: a rank has
    ranges of some parameters, all of others, none of most.
    """

    def __init__(self, optimizer: GradientPartitioned, world: int) -> None:
        self._optimizer = optimizer
        self._ranges: dict[int, list[Range]] = {}
        self._places: dict[int, tuple[int, int, int]] = {}
        for number, group in enumerate(optimizer.round_robin_bit16_groups):
            share = int(optimizer.partition_size[number])
            place = torch.distributed.get_rank(optimizer.real_dp_process_group[number])
            paddings = getattr(optimizer, "round_robin_bit16_padding", None)
            padding = [0] * len(group) if paddings is None else paddings[number]
            for parameter, (start, ranges) in zip(
                group, ranges_in_group(group, padding, share, world)
            ):
                self._ranges[id(parameter)] = ranges
                first, stop = ranges[place]
                self._places[id(parameter)] = (number, start + first - share * place, stop - first)

    def layouts(self, names: ModelNames) -> dict[str, ParameterLayout]:
        return {
            name: ParameterLayout(
                {}, {}, {"dp": Flat(self._ranges[id(parameter)], parameter.shape)}
            )
            for name, parameter in names.parameters.items()
            if id(parameter) in self._ranges
        }

    def held(self, name: str, parameter: nn.Parameter, kind: str) -> torch.Tensor | None:
        if kind != "main_grad":
            return parameter
        if id(parameter) not in self._places:
            return None
        group, start, length = self._places[id(parameter)]
        pieces: Sequence[torch.Tensor] | None = self._optimizer.averaged_gradients.get(group)
        if pieces is None:
            raise _not_final(name)
        if length == 0:
            return pieces[0].new_empty(0)
        passed = 0
        for piece in pieces:
            if passed <= start and start + length <= passed + piece.numel():
                return piece.detach().reshape(-1)[start - passed : start - passed + length]
            passed += piece.numel()
        raise TraceError(
            f"{name}: elements {start} to {start + length} of this rank's partition are in no one "
            "piece of its gradients; this release of DeepSpeed keeps them in another way"
        )

    def updated(self, parameter: nn.Parameter) -> Updated | None:
        if id(parameter) not in self._places:
            return None
        number, start, length = self._places[id(parameter)]
        flat = self._optimizer.single_partition_of_fp32_groups[number]
        return Updated(flat, slice(start, start + length) if length else NOTHING)


class ParameterPartitions(Partitions):
    """ZeRO-3: each rank has its range of every parameter and gradient; the last ones have
    padding."""

    def __init__(
        self, optimizer: ParameterPartitioned, parameters: list[PartitionedParameter], world: int
    ) -> None:
        self._optimizer = optimizer
        self._ranges: dict[int, list[Range]] = {}
        self._place = torch.distributed.get_rank()
        self._gradients = {
            id(parameter): (number, turn)
            for number, group in enumerate(getattr(optimizer, "fp16_groups", []))
            for turn, parameter in enumerate(group)
        }
        for parameter in parameters:
            length = prod(parameter.ds_shape)
            share = -(-length // world)
            if parameter.ds_tensor.numel() != share:
                raise TraceError(
                    f"a parameter of shape {list(parameter.ds_shape)} has "
                    f"{parameter.ds_tensor.numel()} elements on this rank, not {share}: its parts "
                    f"are not those of {world} ranks (MiCS and quantized weights are not "
                    "described); switch that off for traced runs"
                )
            borders = [min(share * i, length) for i in range(world + 1)]
            self._ranges[id(parameter)] = list(zip(borders, borders[1:]))
            group = getattr(parameter, "ds_process_group", None)
            self._place = torch.distributed.get_rank(group)

    def layouts(self, names: ModelNames) -> dict[str, ParameterLayout]:
        found = {}
        for name, parameter in names.parameters.items():
            whole = cast(PartitionedParameter, parameter)
            flat = {"dp": Flat(self._ranges[id(parameter)], tuple(whole.ds_shape))}
            # Autograd's own gradient is that of the gathered parameter.
            found[name] = ParameterLayout(flat, {}, flat)
        return found

    def held(self, name: str, parameter: nn.Parameter, kind: str) -> torch.Tensor | None:
        start, stop = self._ranges[id(parameter)][self._place]
        whole = cast(PartitionedParameter, parameter)
        if kind != "main_grad":
            return self._without_padding(whole.ds_tensor, stop - start)
        if id(parameter) not in self._gradients or not parameter.requires_grad:
            return None
        number, turn = self._gradients[id(parameter)]
        group = self._optimizer.averaged_gradients.get(number)
        if group is None:
            raise _not_final(name)
        return self._without_padding(group[turn], stop - start)

    def updated(self, parameter: nn.Parameter) -> Updated | None:
        flats = getattr(self._optimizer, "fp32_partitioned_groups_flat", None)
        if flats is None or id(parameter) not in self._gradients:
            return None
        start, stop = self._ranges[id(parameter)][self._place]
        number, turn = self._gradients[id(parameter)]
        before = self._optimizer.fp16_groups[number][:turn]
        first = sum(int(other.ds_tensor.numel()) for other in before)
        return Updated(flats[number], slice(first, first + stop - start))

    @staticmethod
    def _without_padding(part: torch.Tensor, length: int) -> torch.Tensor:
        return part.detach().reshape(-1)[:length]


def ranges_in_group(
    group: Sequence[nn.Parameter], padding: Sequence[int], share: int, world: int
) -> Iterator[tuple[int, list[Range]]]:
    """Yields (start in the flat group, range of each rank) for each parameter of the group.

    padding: number of elements after each parameter.
    share: number of elements of a rank's shard of the group.
    """
    start = 0
    for parameter, more in zip(group, padding):
        length = parameter.numel()
        borders = [min(max(share * i - start, 0), length) for i in range(world + 1)]
        yield start, list(zip(borders, borders[1:]))
        start += length + more


def _not_final(name: str) -> TraceError:
    return TraceError(
        f"{name}: ZeRO has its final gradient between the last backward and the step alone; call "
        "main_grads() there, or leave it to the engine's step"
    )
