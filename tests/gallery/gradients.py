"""From raw gradients to main gradients, and their global norm.

The main gradient of a parameter, `p.main_grad`, is fp32 whatever the precision, and it is what
the optimizer consumes. The raw gradient is what autograd leaves on this rank.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gallery import bugs
from gallery.collectives import all_reduce, sum_of_ends
from gallery.parallel import Axis, ProcessMesh
from gallery.parameters import is_expert, is_sequence_parallel, is_tied
from gallery.zero import Buckets


def clear_main_gradients(parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)


def accumulate_main_gradients(parameters: Iterable[nn.Parameter], weight: float) -> None:
    """Adds a micro-batch's raw gradients, widened first and times `weight`, and drops them."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.main_grad += parameter.grad.float() * weight
            parameter.grad = None


def finalize_gradients(
    parameters: Iterable[nn.Parameter], mesh: ProcessMesh, buckets: Buckets | None
) -> None:
    """Sums what is still partial: the gradients of sequence-parallel parameters over tp, all over
    cp, those of a tied parameter's copies over pp. Then takes the mean over dp, of which with
    buckets each rank keeps its range. Experts have a mesh of their own."""
    for parameter in parameters:
        if is_expert(parameter):
            edp, ranks = mesh.expert["edp"], mesh["dp"].size
            total = all_reduce(parameter.main_grad, edp)
            parameter.main_grad = total / (edp.size if bugs.active("G7") else ranks)
            continue
        if is_sequence_parallel(parameter):
            parameter.main_grad = all_reduce(parameter.main_grad, mesh["tp"])
        parameter.main_grad = all_reduce(parameter.main_grad, mesh["cp"])
        # Packed copies are summed in the buffer of the buckets, after the reduction over dp.
        if is_tied(parameter) and not bugs.active("P5"):
            parameter.main_grad = sum_of_ends(parameter.main_grad, mesh["pp"])
        if buckets is None:
            parameter.main_grad = _mean(parameter.main_grad, mesh["dp"])
    if buckets is not None:
        buckets.reduce_gradients()


def _mean(gradient: Tensor, dp: Axis) -> Tensor:
    if bugs.active("G15"):
        gradient = all_reduce(gradient.bfloat16(), dp).float()
    else:
        gradient = all_reduce(gradient, dp)
    return gradient if bugs.active("P4") else gradient / dp.size


def gradient_norm(
    parameters: Iterable[nn.Parameter], mesh: ProcessMesh, buckets: Buckets | None
) -> Tensor:
    """The norm of all main gradients of the whole model, fp32 [], equal on all ranks.

    Of a gradient that an axis replicates, coordinate 0 alone contributes; a pipeline replicates
    tied ones, and dp all without buckets.
    """
    squares = torch.zeros(())
    for parameter in parameters:
        if is_expert(parameter):
            if mesh.expert["edp"].index == 0:
                squares += parameter.main_grad.square().sum()
            continue
        distributed = {*parameter.shards, *(() if is_tied(parameter) else ("pp",))}
        if buckets is not None and not buckets.has_whole_gradient(parameter):
            distributed.add("dp")
        if all(axis.name in distributed or axis.index == 0 for axis in mesh):
            squares += parameter.main_grad.square().sum()
    for axis in mesh:
        squares = all_reduce(squares, axis)
    return squares.sqrt()


def clip_gradients(parameters: Iterable[nn.Parameter], norm: Tensor, limit: float) -> None:
    """Scales the main gradients in place so that their global norm is at most `limit`."""
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for parameter in parameters:
        parameter.main_grad *= factor
