"""Element-wise operations and their backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from ttrace_torch.specification.expressions import FLOATS, Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import TABLE, Call, operation
from ttrace_torch.specification.rounding import limit_in

Operand = Union[Value, int, float, bool]

_UNARY = {
    "neg": "negate",
    "abs": "abs",
    "sign": "sign",
    "sgn": "sign",
    "floor": "floor",
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "erf": "erf",
    "sigmoid": "sigmoid",
    "relu": "relu",
    "silu": "silu",
    "logical_not": "logical_not",
}
_BINARY = {
    "mul": "multiply",
    "maximum": "maximum",
    "minimum": "minimum",
    "remainder": "remainder",
    "floor_divide": "floor_divide",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def _register() -> None:
    for name, primitive in _UNARY.items():

        def unary(call: Call, x: Value, primitive: str = primitive) -> Value:
            return call.make.unary(primitive, x, call.dtype)

        TABLE[name] = unary
    for name, primitive in _BINARY.items():

        def binary(call: Call, x: Operand, other: Operand, primitive: str = primitive) -> Value:
            return _binary(call, primitive, x, other)

        TABLE[name] = binary
    for name, primitive in _COMPARISONS.items():

        def compared(call: Call, x: Operand, other: Operand, primitive: str = primitive) -> Value:
            dtype = next(v.dtype for v in (x, other) if isinstance(v, Value))
            one, two = call.make.limit(x, dtype), call.make.limit(other, dtype)
            return call.make.binary(primitive, one, two, "bool")

        TABLE[name] = compared


_register()


def _binary(call: Call, primitive: str, x: Operand, y: Operand) -> Value:
    if not all(isinstance(v, (Value, int, float)) for v in (x, y)):
        raise Inexpressible("a number that depends on data")
    return call.make.binary(primitive, x, y, call.dtype)


def _scaled(call: Call, x: Operand, factor: Any) -> Operand:
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    return _binary(call, "multiply", call.value(x), factor)


@operation("add")
def _add(call: Call, x: Operand, other: Operand, alpha: Any = 1) -> Value:
    if call.dtype == "bool":
        return _binary(call, "logical_or", x, other)
    return _binary(call, "add", x, _scaled(call, other, alpha))


@operation("sub", "subtract")
def _sub(call: Call, x: Operand, other: Operand, alpha: Any = 1) -> Value:
    return _binary(call, "subtract", x, _scaled(call, other, alpha))


@operation("rsub")
def _rsub(call: Call, x: Operand, other: Operand, alpha: Any = 1) -> Value:
    return _binary(call, "subtract", other, _scaled(call, x, alpha))


@operation("div", "divide", "true_divide")
def _div(call: Call, x: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode == "trunc":
        make = call.make
        quotient = make.binary("divide", x, other, "float64")
        return make.cast(_truncated(call, quotient), call.dtype)
    return _binary(call, "divide" if rounding_mode is None else "floor_divide", x, other)


def _truncated(call: Call, x: Value) -> Value:
    make = call.make
    whole = make.unary("floor", make.unary("abs", x))
    return make.binary("multiply", make.unary("sign", x), whole)


@operation("trunc", "fix")
def _trunc(call: Call, x: Value) -> Value:
    return _truncated(call, x)


@operation("pow")
def _pow(call: Call, x: Operand, exponent: Operand) -> Value:
    if isinstance(x, Value) and not isinstance(exponent, Value):
        if exponent == 2:
            return _binary(call, "multiply", x, x)
        if exponent == 1:
            return x
        if exponent == 0.5 and call.dtype in FLOATS:
            return call.make.unary("sqrt", x, call.dtype)
        if exponent == -0.5 and call.dtype in FLOATS:
            return call.make.unary("rsqrt", x, call.dtype)
        if exponent == -1 and call.dtype in FLOATS:
            return call.make.unary("reciprocal", x, call.dtype)
    return _binary(call, "power", x, exponent)


@operation("square")
def _square(call: Call, x: Value) -> Value:
    return _binary(call, "multiply", x, x)


@operation("ceil")
def _ceil(call: Call, x: Value) -> Value:
    make = call.make
    return make.unary("negate", make.unary("floor", make.unary("negate", x)))


@operation("log1p")
def _log1p(call: Call, x: Value) -> Value:
    return call.make.unary("log", _binary(call, "add", x, 1.0), call.dtype)


@operation("expm1", "prims::expm1")
def _expm1(call: Call, x: Value) -> Value:
    """tanh(x/2)·(e^x + 1), in which nothing cancels."""
    half = call.make.unary("tanh", _binary(call, "multiply", x, 0.5), call.dtype)
    more = _binary(call, "add", call.make.unary("exp", x, call.dtype), 1.0)
    return _binary(call, "multiply", half, more)


@operation("log2")
def _log2(call: Call, x: Value) -> Value:
    exact = call.make.full(1.4426950408889634, call.dtype)
    return _binary(call, "multiply", call.make.unary("log", x, call.dtype), exact)


@operation("exp2")
def _exp2(call: Call, x: Value) -> Value:
    exact = call.make.full(0.6931471805599453, call.dtype)
    return call.make.unary("exp", _binary(call, "multiply", x, exact), call.dtype)


@operation("isnan")
def _isnan(call: Call, x: Value) -> Value:
    return call.make.binary("not_equal", x, x, "bool")


@operation("isinf")
def _isinf(call: Call, x: Value) -> Value:
    return call.make.compared("equal", call.make.unary("abs", x), float("inf"))


@operation("isfinite")
def _isfinite(call: Call, x: Value) -> Value:
    return call.make.compared("less", call.make.unary("abs", x), float("inf"))


@operation("where")
def _where(
    call: Call, condition: Value, x: Operand | None = None, other: Operand | None = None
) -> Value:
    if x is None or other is None:
        raise Inexpressible("positions that depend on data")
    return _chosen(call, condition, call.filling(x), call.filling(other))


@operation("masked_fill")
def _masked_fill(call: Call, x: Value, mask: Value, value: Operand) -> Value:
    return _chosen(call, mask, call.filling(value), x)


def _chosen(call: Call, mask: Value, yes: Value, no: Value) -> Value:
    return call.make.graph.add("where", (mask, yes, no), call.dtype, call.shape)


@operation("clamp", "hardtanh", "clip")
def _clamp(call: Call, x: Value, min: Any = None, max: Any = None, **bounds: Any) -> Value:
    low, high = bounds.get("min_val", min), bounds.get("max_val", max)
    for primitive, bound in (("maximum", low), ("minimum", high)):
        if isinstance(bound, Value):
            x = _binary(call, primitive, x, bound)
    given = {
        name: limit_in(bound, x.dtype)
        for name, bound in (("low", low), ("high", high))
        if isinstance(bound, (int, float))
    }
    return call.make.unary("clamp", x, call.dtype, **given) if given else x


@operation("clamp_min")
def _clamp_min(call: Call, x: Value, min: Any = None, other: Any = None) -> Value:
    return _clamp(call, x, other if min is None else min)  # `other` of `_foreach_clamp_min`


@operation("clamp_max")
def _clamp_max(call: Call, x: Value, max: Any = None, other: Any = None) -> Value:
    return _clamp(call, x, None, other if max is None else max)


@operation("leaky_relu")
def _leaky_relu(call: Call, x: Value, negative_slope: float = 0.01) -> Value:
    positive = call.make.binary("greater", x, 0.0, "bool")
    return _chosen(call, positive, x, _binary(call, "multiply", x, negative_slope))


@operation("leaky_relu_backward")
def _leaky_relu_backward(
    call: Call, grad_output: Value, x: Value, negative_slope: float, self_is_result: bool
) -> Value:
    positive = call.make.binary("greater", x, 0.0, "bool")
    lower = _binary(call, "multiply", grad_output, negative_slope)
    return _chosen(call, positive, grad_output, lower)


@operation("addcmul")
def _addcmul(call: Call, x: Value, tensor1: Value, tensor2: Value, value: Any = 1) -> Value:
    return _binary(
        call, "add", x, _scaled(call, _binary(call, "multiply", tensor1, tensor2), value)
    )


@operation("addcdiv")
def _addcdiv(call: Call, x: Value, tensor1: Value, tensor2: Value, value: Any = 1) -> Value:
    return _binary(call, "add", x, _scaled(call, _binary(call, "divide", tensor1, tensor2), value))


@operation("_amp_foreach_non_finite_check_and_unscale")
def _unscale(call: Call, x: Sequence[Value], found_inf: Value, inv_scale: Value) -> list[Any]:
    """Divides gradients by the scale, as a GradScaler does; `found_inf` does not change them."""
    scaled = [call.make.binary("multiply", one, inv_scale, one.dtype) for one in x]
    return [*scaled, None]


@operation("lerp")
def _lerp(call: Call, x: Value, end: Value, weight: Operand) -> Value:
    step = _binary(call, "multiply", _binary(call, "subtract", end, x), weight)
    return _binary(call, "add", x, step)


# Activations with a primitive of their own.


@operation("gelu")
def _gelu(call: Call, x: Value, approximate: str = "none") -> Value:
    return call.make.unary("gelu", x, call.dtype, tanh=approximate == "tanh")


@operation("gelu_backward")
def _gelu_backward(call: Call, grad_output: Value, x: Value, approximate: str = "none") -> Value:
    arguments = (grad_output, x)
    return call.make.graph.add(
        "gelu_grad", arguments, call.dtype, call.shape, tanh=approximate == "tanh"
    )


@operation("softplus")
def _softplus(call: Call, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    if beta * threshold < 0 or threshold < 20:
        raise Inexpressible("a softplus that is linear from a low threshold on")
    if beta == 1:
        return call.make.unary("softplus", x, call.dtype)
    found = call.make.unary("softplus", _scaled_by(call, x, beta), call.wide)
    return call.make.cast(_scaled_by(call, found, 1 / beta), call.dtype)


def _scaled_by(call: Call, x: Value, factor: float) -> Value:
    return call.make.binary("multiply", x, float(factor), call.wide)


@operation("log_sigmoid")
def _log_sigmoid(call: Call, x: Value) -> Value | None:
    return _log_sigmoid_forward(call, x)[0]


@operation("log_sigmoid_forward")
def _log_sigmoid_forward(call: Call, x: Value) -> tuple[Value | None, ...]:
    make = call.make
    return make.unary("negate", make.unary("softplus", make.unary("negate", x))), None


@operation("log_sigmoid_backward")
def _log_sigmoid_backward(call: Call, grad_output: Value, x: Value, buffer: Value) -> Value:
    other = call.make.unary("sigmoid", call.make.unary("negate", x))
    return _binary(call, "multiply", grad_output, other)


@operation("softplus_backward")
def _softplus_backward(
    call: Call, grad_output: Value, x: Value, beta: float, threshold: float
) -> Value:
    if beta * threshold < 0 or threshold < 20:
        raise Inexpressible("a softplus that is linear from a low threshold on")
    return _grad(call, "softplus_grad", grad_output, x if beta == 1 else _scaled_by(call, x, beta))


@operation("threshold_backward")
def _threshold_backward(call: Call, grad_output: Value, x: Value, threshold: float) -> Value:
    if threshold == 0:
        return _grad(call, "relu_grad", grad_output, x)
    above = call.make.compared("greater", x, threshold)
    return _chosen(call, above, grad_output, call.make.full(0.0, call.dtype))


@operation("hardshrink_backward", "softshrink_backward")
def _shrink_backward(
    call: Call,
    x: Value,
    lambd: float,
    grad_output: Value | None = None,
    grad_out: Value | None = None,
) -> Value:
    gradient = grad_out if grad_output is None else grad_output
    assert gradient is not None
    outside = call.make.compared("greater", call.make.unary("abs", x), lambd)
    return _chosen(call, outside, gradient, call.make.full(0.0, call.dtype))


@operation("silu_backward")
def _silu_backward(call: Call, grad_output: Value, x: Value) -> Value:
    return _grad(call, "silu_grad", grad_output, x)


@operation("sigmoid_backward")
def _sigmoid_backward(call: Call, grad_output: Value, output: Value) -> Value:
    return _grad(call, "sigmoid_grad", grad_output, output)


@operation("tanh_backward")
def _tanh_backward(call: Call, grad_output: Value, output: Value) -> Value:
    return _grad(call, "tanh_grad", grad_output, output)


@operation("hardtanh_backward")
def _hardtanh_backward(
    call: Call, grad_output: Value, x: Value, min_val: float, max_val: float
) -> Value:
    make = call.make
    above = make.compared("greater", x, min_val)
    below = make.compared("less", x, max_val)
    inside = make.binary("logical_and", above, below, "bool")
    return _chosen(call, inside, grad_output, make.full(0.0, call.dtype))


def _grad(call: Call, primitive: str, gradient: Value, x: Value) -> Value:
    return call.make.graph.add(primitive, (gradient, x), call.dtype, call.shape)


@operation("native_dropout")
def _native_dropout(call: Call, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    if p != 0 and train is not False:
        raise Inexpressible("random numbers")
    return input, call.make.full(True, "bool", call.shape)


@operation("native_dropout_backward")
def _native_dropout_backward(call: Call, grad_output: Value, mask: Value, scale: float) -> Value:
    if call.make.is_constant(mask, True) and scale == 1:
        return grad_output
    kept = _binary(call, "multiply", grad_output, call.make.cast(mask, call.dtype))
    return _binary(call, "multiply", kept, scale)
