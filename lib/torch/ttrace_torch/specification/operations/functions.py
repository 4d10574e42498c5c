"""Trigonometric and hyperbolic functions, their inverses, and roundings to whole numbers."""

from __future__ import annotations

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import TABLE, Call, operation

_SAME_NAME = (
    *("sin", "cos", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)


def _register() -> None:
    for name in _SAME_NAME:

        def function(call: Call, x: Value, primitive: str = name) -> Value:
            return call.make.unary(primitive, x, call.dtype)

        TABLE[name] = function


_register()


@operation("atan2")
def _atan2(call: Call, x: Value, other: Value) -> Value:
    return call.make.binary("atan2", x, other, call.dtype)


@operation("tan")
def _tan(call: Call, x: Value) -> Value:
    make, wide = call.make, call.wide
    sine, cosine = (make.unary(name, x, wide) for name in ("sin", "cos"))
    return make.binary("divide", sine, cosine, wide)


@operation("log10")
def _log10(call: Call, x: Value) -> Value:
    make, wide = call.make, call.wide
    exact = make.full(0.4342944819032518, wide)
    return make.binary("multiply", make.unary("log", x, wide), exact, wide)


@operation("erfc")
def _erfc(call: Call, x: Value) -> Value:
    make, wide = call.make, call.wide
    return make.binary("subtract", 1.0, make.unary("erf", x, wide), wide)


@operation("round")
def _round(call: Call, x: Value, decimals: int = 0) -> Value:
    if decimals != 0:
        raise Inexpressible("rounding to decimals")
    return call.make.unary("round", x, call.dtype)


@operation("fmod")
def _fmod(call: Call, x: Value, other: Value | float) -> Value:
    """What is left of x after whole multiples of `other`, with the sign of x."""
    make = call.make
    size = make.unary("abs", other) if isinstance(other, Value) else abs(other)
    rest = make.binary("remainder", make.unary("abs", x), size, call.dtype)
    return make.binary("multiply", make.unary("sign", x), rest, call.dtype)
