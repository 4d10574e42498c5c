"""Random DTensors, cut by PyTorch itself, written as a trace whose tensors are known as a whole."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import prod

import torch
from fake_ranks import playing
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import ttrace_torch as tt

DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)


@dataclass
class Case:
    """A tensor: its device mesh, DTensor placements there, and what a layout cuts before.

    mesh: ("slice", axes) or ("flat", axes) of the root mesh, or ("ranks", ranks).
    outer: axis -> placement.
    """

    name: str
    mesh: tuple
    sizes: list
    placements: list
    whole: torch.Tensor
    outer: dict = field(default_factory=dict)


def random_cases(axes, count, seed):
    """`count` cases on a root mesh with `axes` (name -> size)."""
    draw = random.Random(seed)
    return [_case(draw, axes, f"case{number}") for number in range(count)]


def _case(draw, axes, name):
    mesh, sizes, rest = _mesh(draw, axes)
    shape = [draw.choice((1, 2, 3, 5, 7, 8, 12, 13)) for _ in range(draw.randint(1, 3))]
    placements = _placements(draw, sizes, len(shape))
    reduced = any(isinstance(placement, Partial) for placement in placements)
    dtype = draw.choice(DTYPES[:2] if reduced else DTYPES)
    whole = torch.arange(prod(shape)).reshape(shape).to(dtype)
    outer = {}
    if rest and draw.random() < 0.5:
        # Cut by hand before the DTensor's ranks share out what is left.
        dim = draw.randrange(len(shape))
        outer = {draw.choice(rest): tt.Shard(dim, size=shape[dim])}
    return Case(name, mesh, sizes, placements, whole, outer)


def _mesh(draw, axes):
    """Which device mesh, its sizes, and the root's axes that it has one coordinate of."""
    names, kind = list(axes), draw.random()
    world = prod(axes.values())
    if kind < 0.15:
        sizes = draw.choice([[s] for s in (2, 3, 4) if s <= world] + [[2, 2]] * (world >= 4))
        return ("ranks", draw.sample(range(world), prod(sizes))), sizes, []
    chosen = sorted(draw.sample(names, draw.randint(1, len(names))), key=names.index)
    rest = [axis for axis in names if axis not in chosen]
    if kind < 0.3 and len(chosen) > 1:
        return ("flat", chosen), [prod(axes[axis] for axis in chosen)], rest
    return ("slice", chosen), [axes[axis] for axis in chosen], rest


def _placements(draw, sizes, ndim):
    found = []
    for size in sizes:
        kind = draw.random()
        if kind < 0.45:
            found.append(Shard(draw.randrange(ndim)))
        elif kind < 0.6:
            found.append(_StridedShard(draw.randrange(ndim), split_factor=draw.randint(2, 4)))
        elif kind < 0.75 and not any(isinstance(p, Partial) for p in found):
            # Means over three are not exact.
            found.append(Partial(draw.choice(("sum", "max") + ("avg",) * (size in (1, 2, 4)))))
        else:
            found.append(Replicate())
    if len(sizes) > 1 and draw.random() < 0.4:
        # What FSDP2 makes of a parameter that tensor parallelism has cut.
        dim = draw.randrange(ndim)
        found[-2:] = [_StridedShard(dim, split_factor=sizes[-1]), Shard(dim)]
    return found


def write_trace(folder, axes, cases):
    """Every rank's part of every case, by PyTorch, through the collector."""
    world = prod(axes.values())
    for rank in range(world):
        with playing(rank, world):
            root = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
            options = {"out": folder, "mesh": tt.Mesh(axes), "rank": rank, "kinds": ["scalar"]}
            with tt.trace(nn.Linear(1, 1), **options) as tracer, tracer.step(0):
                for case in cases:
                    part = case.whole
                    for axis, placement in case.outer.items():
                        cut = Shard(placement.dim)._split_tensor(
                            part, axes[axis], with_padding=False
                        )
                        part = cut[0][tt.Mesh(axes).coordinate(rank)[axis]]
                    tracer.scalar(case.name, _dtensor(case, part, root), case.outer)


def _dtensor(case, part, root):
    """The DTensor of which `part` is what the outer axes leave to this rank."""
    mesh = _device_mesh(case, root)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        meta = {"shape": part.shape, "stride": part.stride()}
        empty = part.new_empty(0)
        return DTensor.from_local(empty, mesh, case.placements, run_check=False, **meta)
    if not any(isinstance(placement, Partial) for placement in case.placements):
        return distribute_tensor(part, mesh, case.placements, src_data_rank=None)
    local = part
    for placement, size, index in zip(case.placements, case.sizes, coordinate, strict=True):
        if isinstance(placement, Partial):
            local = _term(local, placement.reduce_op, size, index)
        elif not isinstance(placement, Replicate):
            local = placement._split_tensor(local, size, with_padding=False)[0][index]
    meta = {"shape": part.shape, "stride": part.stride()}
    return DTensor.from_local(local, mesh, case.placements, run_check=False, **meta)


def _device_mesh(case, root):
    kind, what = case.mesh[:2]
    if kind == "ranks":
        ranks = torch.tensor(what).reshape(case.sizes)
        return DeviceMesh("cpu", ranks, mesh_dim_names=("x", "y")[: len(case.sizes)])
    mesh = root[tuple(what)] if tuple(what) != root.mesh_dim_names else root
    return mesh._flatten("_".join(what)) if kind == "flat" else mesh


def _term(whole, reduction, size, index):
    """The `index`-th of `size` different tensors whose reduction is `whole`, without rounding."""
    if reduction == "max":
        return whole - abs(index - int(whole.sum().item()) % size)
    if index < size - 1:
        return (whole if reduction == "avg" else 0 * whole) + index + 1
    last = (size - 1) * size // 2
    return whole - last
