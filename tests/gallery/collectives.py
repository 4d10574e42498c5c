"""Collectives that autograd can differentiate, along one mesh axis.

Each is the identity where the axis has one rank, so the model needs no second code path. The
pairs are each other's transposes: what one does forward, the other does to the gradient.
Activations are [sequence, batch, hidden]; the sequence is dimension 0.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from gallery.parallel import Axis


def all_reduce(tensor: Tensor, axis: Axis, op: Any = dist.ReduceOp.SUM) -> Tensor:
    """Reduces a copy of `tensor` over the axis; autograd does not see it."""
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    if axis.size > 1:
        dist.all_reduce(tensor, op=op, group=axis.group)
    return tensor


def sum_of_ends(tensor: Tensor, axis: Axis) -> Tensor:
    """The sum of what the first and the last rank of the axis have, on both; others do not call."""
    other = axis.ranks[0 if axis.index else -1]
    received = torch.empty_like(tensor)
    sending = dist.isend(tensor, other)
    dist.recv(received, other)
    sending.wait()
    return tensor + received


def exchange(x: Tensor, axis: Axis, sent: list[int], received: list[int]) -> Tensor:
    """Rows to every rank of the axis and from every rank, in the ranks' order.

    sent, received: how many rows go to each rank, and come from it.
    """
    return x if axis.size == 1 else _Exchange.apply(x, axis, sent, received)


def exchanged_counts(counts: Tensor, axis: Axis) -> Tensor:
    """Row i goes to rank i of the axis; row i of the result came from there."""
    return _all_to_all(counts, axis, [1] * axis.size, [1] * axis.size)


def enter_tensor_region(x: Tensor, axis: Axis, sequence_parallel: bool) -> Tensor:
    """Makes x whole on every rank, before a column-parallel product.

    With sequence parallelism x is this rank's part of the sequence, [s/tp, b, h] -> [s, b, h];
    else it is whole already. Each rank's product gives a part of x's gradient: the backward sums.
    """
    if axis.size == 1:
        return x
    return _GatherSequence.apply(x, axis) if sequence_parallel else _Copy.apply(x, axis)


def leave_tensor_region(x: Tensor, axis: Axis, sequence_parallel: bool) -> Tensor:
    """Sums the ranks' partial x; with sequence parallelism each keeps its part, [s/tp, b, h]."""
    if axis.size == 1:
        return x
    return _ReduceScatterSequence.apply(x, axis) if sequence_parallel else sum_over(x, axis)


def sum_over(x: Tensor, axis: Axis) -> Tensor:
    """Sums x over the axis; every rank goes on with the sum, so its gradient is complete."""
    return x if axis.size == 1 else _Reduce.apply(x, axis)


def local_sequence(x: Tensor, axis: Axis) -> Tensor:
    """This rank's part of the sequence."""
    return x.chunk(axis.size, dim=0)[axis.index]


def gather_parts(x: Tensor, axis: Axis) -> Tensor:
    """The parts of all ranks, one after the other in dimension 0; autograd does not see it."""
    whole = x.new_empty(x.shape[0] * axis.size, *x.shape[1:])
    dist.all_gather(list(whole.chunk(axis.size)), x.contiguous(), group=axis.group)
    return whole


def reduce_scatter_parts(x: Tensor, axis: Axis) -> Tensor:
    """This rank's part, in dimension 0, of the sum over the axis; autograd does not see it."""
    part = x.new_empty(x.shape[0] // axis.size, *x.shape[1:])
    dist.reduce_scatter(part, list(x.contiguous().chunk(axis.size)), group=axis.group)
    return part


def _all_to_all(x: Tensor, axis: Axis, sent: list[int], received: list[int]) -> Tensor:
    if axis.size == 1:
        return x
    out = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(out, x.contiguous(), received, sent, group=axis.group)
    return out


class _Exchange(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis, sent: list[int], received: list[int]) -> Tensor:
        ctx.axis, ctx.sent, ctx.received = axis, sent, received
        return _all_to_all(x, axis, sent, received)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _all_to_all(gradient, ctx.axis, ctx.received, ctx.sent), None, None, None


class _Copy(Function):
    """Megatron's f: identity, and the gradient is summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return all_reduce(gradient, ctx.axis), None


class _Reduce(Function):
    """Megatron's g: a sum, and the gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        return all_reduce(x, axis)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _GatherSequence(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return gather_parts(x, axis)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return reduce_scatter_parts(gradient, ctx.axis), None


class _ReduceScatterSequence(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return reduce_scatter_parts(x, axis)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gather_parts(gradient, ctx.axis), None
