"""What a recorded loss was multiplied by before it was recorded: a number of tokens that the sum of
its terms is divided by, a weight, 1 / micro-batches.

It is read off the graph that autograd has, and only where the other operand needs no gradient.
Saved tensors are looked at where they lie, without unpacking.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

# They change how a number is stored, and not the number.
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
    """What the terms of a loss were multiplied by.

    number: float64, one element, on the loss's device; NaN where no elements are at hand.
    operations: the multiplications, the last one first: "multiply" or "divide", and the turn of the
        number among the operands.
    node: of autograd, the first operation that multiplied; its input is the loss without them.
    """

    number: torch.Tensor
    operations: list[tuple[str, int]]
    node: Any


def inner_factor(loss: torch.Tensor) -> InnerFactor | None:
    """The product of the numbers that `loss`, of one element, was multiplied by last; None if there
    is none."""
    if loss.numel() != 1:
        return None
    numbers: list[torch.Tensor] = []
    operations: list[tuple[str, int]] = []
    first, node = None, loss.grad_fn
    # A mode would get a number of Python's in the place of the tensor that autograd keeps of it.
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
    """What an operation multiplies or divides a tensor of one element by, as float64, and its turn
    among the operands."""
    following = node.next_functions
    if node.name() not in _SCALING or sum(one is not None for one, _ in following) != 1:
        return None
    # A number of Python's is no operand of autograd's, and comes last.
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
        # Not from the tensor: that of a number of Python's stays of no type.
        return turn, torch.tensor(kept.item(), dtype=torch.float64)
    return turn, kept.detach().double().reshape(())
