"""Distances of every pair of rows."""

from __future__ import annotations

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

# From more rows than these on, Euclidean distances come from a product of matrices, for which torch
# calls other operations.
_FEW_ROWS = 25
_ALWAYS, _NEVER = 1, 2


@operation("_cdist_forward")
def _cdist(call: Call, x1: Value, x2: Value, p: float, compute_mode: int | None) -> Value:
    make = call.make
    many = max(x1.shape[-2], x2.shape[-2]) > _FEW_ROWS and compute_mode != _NEVER
    if p == 2 and (many or compute_mode == _ALWAYS):
        raise Inexpressible("distances by a product of matrices")
    apart = make.unary("abs", _differences(call, x1, x2))
    if p == float("inf"):
        return make.reduce("max", apart, -1)
    if p <= 0:
        raise Inexpressible(f"distances of order {p}")
    return make.reduce("norm", apart, -1, order=float(p))


def _differences(call: Call, x1: Value, x2: Value) -> Value:
    """[..., rows of x1, rows of x2, width]"""
    one = call.make.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    two = call.make.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))
    return call.make.binary("subtract", one, two)


@operation("_cdist_backward")
def _cdist_backward(call: Call, grad: Value, x1: Value, x2: Value, p: float, cdist: Value) -> Value:
    """Of x1; torch asks for that of x2 with both exchanged."""
    make = call.make
    apart = _differences(call, x1, x2)
    gradient, distance = (make.reshape(one, (*one.shape, 1)) for one in (grad, cdist))
    zero = make.full(0.0, call.dtype)
    if p == 1:
        slope = make.unary("sign", apart)
    elif p == 2:
        quotient = make.binary("divide", apart, distance)
        far = make.compared("not_equal", distance, 0.0)
        slope = make.graph.add("where", (far, quotient, zero), call.dtype, quotient.shape)
    else:
        raise Inexpressible(f"gradients of distances of order {p}")
    return make.reduce("sum", make.binary("multiply", gradient, slope), len(apart.shape) - 2)
