"""From raw gradients to main gradients, and their global norm.

The main gradient of a parameter, `p.main_grad`, is fp32 whatever the precision, and it is what
the optimizer consumes. The raw gradient is what autograd leaves on this rank.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gallery.collectives import all_reduce
from gallery.parallel import ProcessMesh
from gallery.parameters import is_sequence_parallel


def clear_main_gradients(parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)


def accumulate_main_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Adds a micro-batch's raw gradients, widened first, and drops them."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.main_grad += parameter.grad
            parameter.grad = None


def finalize_gradients(parameters: Iterable[nn.Parameter], mesh: ProcessMesh) -> None:
    """Sums what is still partial: the gradients of sequence-parallel parameters, over tp."""
    for parameter in parameters:
        if is_sequence_parallel(parameter):
            parameter.main_grad = all_reduce(parameter.main_grad, mesh["tp"])


def gradient_norm(parameters: Iterable[nn.Parameter], mesh: ProcessMesh) -> Tensor:
    """The norm of all main gradients of the whole model, fp32 [], equal on all ranks.

    Of a parameter that an axis replicates, coordinate 0 alone contributes.
    """
    squares = torch.zeros(())
    for parameter in parameters:
        if all(axis.name in parameter.shards or axis.index == 0 for axis in mesh):
            squares += parameter.main_grad.square().sum()
    for axis in mesh:
        squares = all_reduce(squares, axis)
    return squares.sqrt()


def clip_gradients(parameters: Iterable[nn.Parameter], norm: Tensor, limit: float) -> None:
    """Scales the main gradients in place so that their global norm is at most `limit`."""
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for parameter in parameters:
        parameter.main_grad *= factor
