"""Operations that make tensors from nothing."""

from __future__ import annotations

from typing import Any

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation
from ttrace_torch.specification.rounding import limit_in


@operation("zeros", "zeros_like", "new_zeros", "zero")
def _zeros(call: Call, **_: Any) -> Value:
    return _filled(call, 0)


@operation("ones", "ones_like", "new_ones")
def _ones(call: Call, **_: Any) -> Value:
    return _filled(call, 1)


@operation("full", "full_like", "new_full")
def _full(call: Call, fill_value: Any, **_: Any) -> Value:
    return _filled(call, fill_value)


@operation("fill")
def _fill(call: Call, x: Value, value: Any) -> Value:
    if isinstance(value, Value):
        return call.make.expand(call.make.cast(value, x.dtype), x.shape)
    return _filled(call, value)


@operation("scalar_tensor")
def _scalar_tensor(call: Call, s: Any, **_: Any) -> Value:
    return _filled(call, s)


@operation("arange")
def _arange(call: Call, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Value:
    if not all(isinstance(n, (int, float)) for n in (start, step)) or call.shape[0] < 0:
        raise Inexpressible("a range that depends on data")
    return call.make.arange(start, step, call.shape[0], call.dtype)


@operation("eye")
def _eye(call: Call, **_: Any) -> Value:
    make = call.make
    rows, columns = (make.arange(0, 1, size, "int64") for size in call.shape)
    rows = make.reshape(rows, (call.shape[0], 1))
    return make.cast(make.binary("equal", rows, columns, "bool"), call.dtype)


@operation("tril")
def _tril(call: Call, x: Value, diagonal: int = 0) -> Value:
    return call.make.unary("triangle", x, lower=True, diagonal=diagonal)


@operation("triu")
def _triu(call: Call, x: Value, diagonal: int = 0) -> Value:
    return call.make.unary("triangle", x, lower=False, diagonal=diagonal)


def _filled(call: Call, value: Any) -> Value:
    if isinstance(value, Value):
        return call.make.expand(call.make.cast(value, call.dtype), call.shape)
    if not isinstance(value, (int, float)):
        raise Inexpressible("a number that depends on data")
    if call.dtype == "bool":
        value = bool(value)
    elif call.dtype.startswith(("float", "bfloat")):
        value = float(value)
    return call.make.full(limit_in(value, call.dtype), call.dtype, call.shape)
