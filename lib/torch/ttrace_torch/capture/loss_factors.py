"""Finds the factor of a recorded loss from before it was recorded: a number of tokens that the sum
of its terms is divided by, a weight, 1 / micro-batches.

It is read off the graph that autograd has, and only where the other operand needs no gradient.
Saved tensors are read in place, without unpacking.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

# Operations that change how a number is stored, but not the number.
_KEEPING = frozenset(
    {
        "AliasBackward0",
        "CloneBackward0",
        "ReshapeAliasBackward0",
        "SqueezeBackward0",
        "SqueezeBackward1",
        "ToCopyBackward0",
        "UnsafeViewBackward0",
        "UnsqueezeBackward0",
        "ViewBackward0",
    }
)
_DIVIDES = "DivBackward0"
_SCALING = {"MulBackward0": "multiply", _DIVIDES: "divide"}
_OPERANDS = ("self", "other")
# A loss is multiplied by a handful of numbers.
_MOST_NODES = 32


class InnerFactor(NamedTuple):
    """The factor that the terms of a loss were multiplied by.

    number: float64, one element, on the loss's device; NaN where no elements are at hand.
    operations: the multiplications, the last one first: "multiply" or "divide", and the position of
        the number among the operands.
    node: autograd's node of the first multiplication; its input is the loss without any.
    """

    number: torch.Tensor
    operations: list[tuple[str, int]]
    node: Any


def inner_factor(loss: torch.Tensor) -> InnerFactor | None:
    """The product of the numbers that `loss`, of one element, was last multiplied by; None if there
    is no such number."""
    if loss.numel() != 1:
        return None
    numbers: list[torch.Tensor] = []
    operations: list[tuple[str, int]] = []
    first, node = None, loss.grad_fn
    # Under a dispatch mode, autograd would show a Python number in the place of the tensor that it
    # keeps.
    with torch.no_grad(), torch._C._DisableTorchDispatch():
        for _ in range(_MOST_NODES):
            if node is None:
                break
            kind = node.name()
            if kind not in _KEEPING:
                found = _number_of(node)
                if found is None:
                    break
                turn, number = found
                operations.append((_SCALING[kind], turn))
                numbers.append(number.reciprocal() if kind == _DIVIDES else number)
                first = node
            node = next((one for one, _ in node.next_functions if one is not None), None)
        if not numbers:
            return None
        product = numbers[0]
        for number in numbers[1:]:
            product = product * number
    return InnerFactor(product, operations, first)


def _number_of(node: Any) -> tuple[int, torch.Tensor] | None:
    """The number that an operation multiplies or divides a tensor of one element by, as float64,
    and its position among the operands."""
    following = node.next_functions
    if node.name() not in _SCALING or sum(one is not None for one, _ in following) != 1:
        return None
    # A Python number is no operand of autograd's, and comes last.
    turn = next((turn for turn, (one, _) in enumerate(following) if one is None), 1)
    if turn == 0 and node.name() == _DIVIDES:
        return None
    # Releases before 2.6 show no data without unpacking.
    kept = getattr(getattr(node, f"_raw_saved_{_OPERANDS[turn]}", None), "data", None)
    if not isinstance(kept, torch.Tensor) or kept.numel() != 1:
        return None
    if isinstance(kept, FakeTensor) or kept.is_meta:
        return turn, torch.full((), math.nan, dtype=torch.float64)
    if kept.device.type == "cpu":
        # Makes a new tensor: autograd's tensor of a Python number has no fixed type.
        return turn, torch.tensor(kept.item(), dtype=torch.float64)
    return turn, kept.detach().double().reshape(())
