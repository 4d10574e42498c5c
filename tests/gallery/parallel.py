"""The mesh of processes: which ranks form a line along each axis, and their process groups.

Knows nothing of models. Ranks lie row-major over the axes, the innermost axis runs fastest.
"""

import datetime
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch.distributed as dist


class MeshError(ValueError):
    """The processes that were started do not fill the mesh."""


@dataclass(frozen=True)
class Axis:
    """One mesh axis as this rank sees it."""

    name: str
    size: int
    index: int  # this rank's coordinate
    ranks: tuple[int, ...] = (0,)  # of the line along the axis that this rank lies on
    group: dist.ProcessGroup | None = None  # None where size is 1: there is nobody to talk to


class ProcessMesh:
    """This rank's place on every axis. `mesh["tp"].index` is its tensor-parallel coordinate.

    expert: another mesh of the same ranks, along whose axes the experts are cut; None without.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        rank: int = 0,
        groups: Mapping[str, dist.ProcessGroup] | None = None,
    ) -> None:
        self.rank = rank
        self.expert: ProcessMesh | None = None
        coordinates = np.unravel_index(rank, tuple(sizes.values()))
        self._axes = {
            name: Axis(name, size, int(index), _line(sizes, name, rank), (groups or {}).get(name))
            for (name, size), index in zip(sizes.items(), coordinates, strict=True)
        }

    def __getitem__(self, name: str) -> Axis:
        return self._axes[name]

    def __iter__(self) -> Iterator[Axis]:
        return iter(self._axes.values())


def lines(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    """Every line of ranks along `axis`, in the order of their coordinates."""
    ranks = np.arange(np.prod(list(sizes.values()))).reshape(tuple(sizes.values()))
    along = np.moveaxis(ranks, list(sizes).index(axis), -1)
    return along.reshape(-1, sizes[axis]).tolist()


def _line(sizes: Mapping[str, int], axis: str, rank: int) -> tuple[int, ...]:
    return next(tuple(line) for line in lines(sizes, axis) if rank in line)


def connect(sizes: Mapping[str, int], expert_sizes: Mapping[str, int]) -> ProcessMesh:
    """Joins the processes that torchrun started; a lone process needs no torchrun."""
    wanted = int(np.prod(list(sizes.values())))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world != wanted:
        mesh = " x ".join(f"{name} {size}" for name, size in sizes.items())
        raise MeshError(f"the mesh {mesh} takes {wanted} processes, {world} were started")
    if world > 1:
        # A rank that dies must not leave the others waiting for gloo's half hour.
        dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=3))
    mesh = _connected(sizes)
    mesh.expert = _connected(expert_sizes)
    return mesh


def _connected(sizes: Mapping[str, int]) -> ProcessMesh:
    rank = dist.get_rank() if dist.is_initialized() else 0
    groups = {}
    for name, size in sizes.items():
        for line in lines(sizes, name) if size > 1 else []:
            group = dist.new_group(line)  # collective: every rank makes every group
            if rank in line:
                groups[name] = group
    return ProcessMesh(sizes, rank, groups)


def disconnect() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
