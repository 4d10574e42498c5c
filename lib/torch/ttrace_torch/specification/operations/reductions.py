"""Sums, means, extremes, softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from ttrace_torch.specification.expressions import FLOATS, Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

Dims = Optional[Union[int, Sequence[int]]]


@operation("sum", "nansum")
def _sum(call: Call, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
    return call.make.reduce("sum", x, dim, keepdim, call.dtype)


@operation("mean")
def _mean(call: Call, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
    return call.make.reduce("mean", x, dim, keepdim, call.dtype)


@operation("prod")
def _prod(call: Call, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
    return call.make.reduce("product", x, dim, keepdim, call.dtype)


@operation("amax")
def _amax(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return call.make.reduce("max", x, dim, keepdim)


@operation("amin")
def _amin(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return call.make.reduce("min", x, dim, keepdim)


@operation("max")
def _max(call: Call, x: Value, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    return _extreme(call, "max", x, dim, keepdim, other)


@operation("min")
def _min(call: Call, x: Value, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    return _extreme(call, "min", x, dim, keepdim, other)


def _extreme(call: Call, primitive: str, x: Value, dim: Any, keep: bool, other: Any) -> Any:
    if other is not None:
        return call.make.binary(f"{primitive}imum", x, other, call.dtype)
    value = call.make.reduce(primitive, x, dim, keep)
    if len(call.shapes) == 1:
        return value
    return value, _position(call, x, dim, primitive == "max", call.shapes[1])


def _position(call: Call, x: Value, dim: int, largest: bool, shape: tuple[int, ...]) -> Value:
    dim %= max(len(x.shape), 1)
    one = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    found = call.make.graph.add("top_indices", (x,), "int64", one, dim=dim, k=1, largest=largest)
    return call.make.reshape(found, shape)


@operation("argmax")
def _argmax(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _argument(call, x, dim, largest=True)


@operation("argmin")
def _argmin(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _argument(call, x, dim, largest=False)


def _argument(call: Call, x: Value, dim: int | None, largest: bool) -> Value:
    if dim is None:
        count = 1
        for size in x.shape:
            count *= size
        x, dim = call.make.reshape(x, (count,)), 0
    return _position(call, x, dim, largest, call.shape)


@operation("any")
def _any(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return call.make.reduce("any", x, dim, keepdim, "bool")


@operation("all")
def _all(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return call.make.reduce("all", x, dim, keepdim, "bool")


@operation("cumsum")
def _cumsum(call: Call, x: Value, dim: int, **_: Any) -> Value:
    return call.make.unary("cumsum", x, call.dtype, dim=dim % max(len(x.shape), 1))


@operation("cumprod")
def _cumprod(call: Call, x: Value, dim: int, **_: Any) -> Value:
    return call.make.unary("cumprod", x, call.dtype, dim=dim % max(len(x.shape), 1))


@operation("var")
def _var(
    call: Call,
    x: Value,
    dim: Dims = None,
    correction: float | None = None,
    keepdim: bool = False,
    unbiased: bool = True,
) -> Value:
    correction = (1 if unbiased else 0) if correction is None else correction
    return call.make.reduce("variance", x, dim, keepdim, call.dtype, correction=correction)


@operation("std")
def _std(call: Call, x: Value, **arguments: Any) -> Value:
    return call.make.unary("sqrt", _var(call, x, **arguments))


@operation("var_mean")
def _var_mean(call: Call, x: Value, dim: Dims = None, **arguments: Any) -> tuple[Value, Value]:
    mean = call.make.reduce("mean", x, dim, arguments.get("keepdim", False), call.dtype)
    return _var(call, x, dim, **arguments), mean


@operation("logsumexp")
def _logsumexp(call: Call, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    return call.make.reduce("logsumexp", x, dim, keepdim, call.dtype)


@operation("linalg_vector_norm")
def _vector_norm(
    call: Call, x: Value, ord: Any = 2, dim: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    return _norm(call, x, ord, dim, keepdim)


@operation("norm")
def _norm(
    call: Call, x: Value, p: Any = 2, dim: Dims = None, keepdim: bool = False, ord: Any = None
) -> Value:
    # Norms of lists of tensors have `ord` for `p`.
    p = p if ord is None else ord
    order = 2.0 if p is None else float(p)
    if order == float("inf"):
        return call.make.reduce("max", call.make.unary("abs", x), dim, keepdim, call.dtype)
    if order <= 0:
        raise Inexpressible(f"a norm of order {order}")
    return call.make.reduce("norm", x, dim, keepdim, call.dtype, order=order)


@operation("_softmax", "_safe_softmax", "softmax")
def _softmax(call: Call, x: Value, dim: int, *_: Any, **__: Any) -> Value:
    return call.make.unary("softmax", x, call.dtype, dim=dim % max(len(x.shape), 1))


@operation("_log_softmax", "log_softmax")
def _log_softmax(call: Call, x: Value, dim: int, *_: Any, **__: Any) -> Value:
    return call.make.unary("log_softmax", x, call.dtype, dim=dim % max(len(x.shape), 1))


@operation("_softmax_backward_data")
def _softmax_backward(
    call: Call, grad_output: Value, output: Value, dim: int, input_dtype: Any
) -> Value:
    return _of_result(call, "softmax_grad", grad_output, output, dim)


@operation("_log_softmax_backward_data")
def _log_softmax_backward(
    call: Call, grad_output: Value, output: Value, dim: int, input_dtype: Any
) -> Value:
    return _of_result(call, "log_softmax_grad", grad_output, output, dim)


def _of_result(call: Call, primitive: str, gradient: Value, output: Value, dim: int) -> Value:
    dim %= max(len(output.shape), 1)
    found = call.make.graph.add(
        primitive, (gradient, output), gradient.dtype, output.shape, dim=dim
    )
    return call.make.cast(found, call.dtype)


@operation("count_nonzero")
def _count_nonzero(call: Call, x: Value, dim: Dims = None) -> Value:
    there = call.make.binary("not_equal", x, 0.0 if x.dtype in FLOATS else 0, "bool")
    return call.make.reduce("sum", call.make.cast(there, "int64"), dim, False, "int64")
