"""Losses and their backwards."""

from __future__ import annotations

from typing import Any

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

_REDUCTIONS = ("none", "mean", "sum")


@operation("nll_loss_forward", "nll_loss2d_forward")
def _nll_loss(
    call: Call, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> list[Value | None]:
    make = call.make
    flat, targets = _rows(call, x, target)
    facts = {"reduction": _REDUCTIONS[reduction], "ignore": ignore_index}
    shape = targets.shape if reduction == 0 else ()
    loss = make.with_optional(
        "nll_loss",
        [("x", flat), ("target", targets), ("weight", weight)],
        x.dtype,
        shape,
        **facts,
    )
    count = None
    if weight is None and reduction == 1:
        number = make.graph.add("nll_loss_count", (targets,), "int64", (), ignore=ignore_index)
        count = make.cast(number, x.dtype)
    return [make.reshape(loss, call.shape), count]


@operation("nll_loss_backward", "nll_loss2d_backward")
def _nll_loss_backward(
    call: Call,
    grad_output: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    total_weight: Value,
) -> Value:
    if weight is not None:
        raise Inexpressible("a loss with weights of classes")
    make = call.make
    flat, targets = _rows(call, x, target)
    gradient = make.reshape(grad_output, targets.shape if reduction == 0 else ())
    found = make.graph.add(
        "nll_loss_grad",
        (gradient, flat, targets),
        x.dtype,
        flat.shape,
        reduction=_REDUCTIONS[reduction],
        ignore=ignore_index,
    )
    if len(x.shape) < 3:
        return make.reshape(found, x.shape)
    last = make.reshape(found, (x.shape[0], *x.shape[2:], x.shape[1]))
    return make.permute(last, (0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))


def _rows(call: Call, x: Value, target: Value) -> tuple[Value, Value]:
    """Log-probabilities [n, classes] and targets [n]."""
    make = call.make
    if len(x.shape) == 1:
        return make.reshape(x, (1, *x.shape)), make.reshape(target, (1,))
    if len(x.shape) > 2:
        x = make.permute(x, (0, *range(2, len(x.shape)), 1))
        count = 1
        for size in x.shape[:-1]:
            count *= size
        return make.reshape(x, (count, x.shape[-1])), make.reshape(target, (count,))
    return x, target


@operation("mse_loss")
def _mse_loss(call: Call, x: Value, target: Value, reduction: int = 1) -> Value:
    make = call.make
    difference = make.binary("subtract", x, target, call.dtype)
    return _reduced(call, make.binary("multiply", difference, difference), reduction)


@operation("mse_loss_backward")
def _mse_loss_backward(
    call: Call, grad_output: Value, x: Value, target: Value, reduction: int
) -> Value:
    make = call.make
    difference = make.binary("subtract", x, target, call.dtype)
    factor = 2.0
    if reduction == 1:
        for size in difference.shape:
            factor /= size
    scaled = make.binary("multiply", difference, factor)
    return make.binary("multiply", scaled, grad_output, call.dtype)


@operation("l1_loss")
def _l1_loss(call: Call, x: Value, target: Value, reduction: int = 1) -> Value:
    make = call.make
    difference = make.binary("subtract", x, target, call.dtype)
    return _reduced(call, make.unary("abs", difference), reduction)


def _reduced(call: Call, x: Value, reduction: int) -> Value:
    if reduction == 0:
        return x
    return call.make.reduce(_REDUCTIONS[reduction], x, None, False, call.dtype)


@operation("_assert_async", "_assert_scalar")
def _nothing(call: Call, **_: Any) -> None:
    return None
