"""Operations on complex tensors, such as rotary embeddings compute with."""

from __future__ import annotations

from typing import Any, Callable

from ttrace_torch.specification.complexes import (
    PARTS,
    complex_of,
    conjugate,
    is_complex,
    of_number,
    parts_of,
)
from ttrace_torch.specification.expressions import Expressions, Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations import elementwise, products, reductions  # noqa: F401
from ttrace_torch.specification.operations.table import TABLE, Call, operation


@operation("view_as_complex")
def _view_as_complex(call: Call, x: Value) -> Value:
    make, last = call.make, len(x.shape) - 1
    halves = [make.reshape(make.slice(x, last, at, at + 1), call.shape) for at in (0, 1)]
    return complex_of(make, *halves)


@operation("view_as_real")
def _view_as_real(call: Call, x: Value) -> Value:
    make = call.make
    parts = [make.reshape(part, (*x.shape, 1)) for part in parts_of(make, x)]
    return make.concat(parts, len(x.shape))


@operation("complex")
def _complex(call: Call, real: Value, imag: Value) -> Value:
    return complex_of(call.make, *(call.make.expand(part, call.shape) for part in (real, imag)))


@operation("polar")
def _polar(call: Call, abs: Value, angle: Value) -> Value:
    make = call.make
    turned = (make.unary(name, angle) for name in ("cos", "sin"))
    return complex_of(make, *(make.binary("multiply", abs, one) for one in turned))


@operation("_conj")
def _conj(call: Call, x: complex) -> Value:
    """Of a number of the script; that of a tensor is a view."""
    return of_number(call.make, x.conjugate(), call.dtype, call.shape)


@operation("conj_physical", "_conj_physical")
def _conj_physical(call: Call, x: Value) -> Value:
    return conjugate(call.make, x) if is_complex(x) else x


def _as_value(call: Call, x: Any) -> Value:
    """An argument as a value: a number of the script is one without dimensions."""
    if isinstance(x, Value):
        return x
    if not isinstance(x, (int, float, complex)):
        raise Inexpressible("a number that depends on data")
    return of_number(call.make, complex(x), call.dtype, ())


def _multiplied(call: Call, x: Any, other: Any) -> Value:
    make = call.make
    if not isinstance(x, Value) or not isinstance(other, Value):
        tensor, number = (x, other) if isinstance(x, Value) else (other, x)
        if isinstance(number, (int, float)):
            scaled = (make.binary("multiply", part, number) for part in parts_of(make, tensor))
            return complex_of(make, *scaled)
    return _product(make, _as_value(call, x), _as_value(call, other))


def _product(make: Expressions, x: Value, other: Value) -> Value:
    def product(one: Value, two: Value) -> Value:
        return make.binary("multiply", one, two)

    (a, b), (c, d) = parts_of(make, x), parts_of(make, other)
    if not is_complex(other):
        return complex_of(make, product(a, c), product(b, c))
    if not is_complex(x):
        return complex_of(make, product(a, c), product(a, d))
    real = make.binary("subtract", product(a, c), product(b, d))
    return complex_of(make, real, make.binary("add", product(a, d), product(b, c)))


def _divided(call: Call, x: Any, other: Any, **_: Any) -> Value:
    make = call.make
    x, other = _as_value(call, x), _as_value(call, other)
    if is_complex(other):
        x, other = _product(make, x, conjugate(make, other)), _square(make, other)
    return complex_of(make, *(make.binary("divide", one, other) for one in parts_of(make, x)))


def _square(make: Expressions, x: Value) -> Value:
    """|x|²"""
    real, imaginary = (make.binary("multiply", part, part) for part in parts_of(make, x))
    return make.binary("add", real, imaginary)


def _exponential(call: Call, x: Value) -> Value:
    make = call.make
    real, angle = parts_of(make, x)
    size = make.unary("exp", real)
    turned = (make.unary(name, angle) for name in ("cos", "sin"))
    return complex_of(make, *(make.binary("multiply", size, one) for one in turned))


def _sign(call: Call, x: Value) -> Value:
    """x / |x|, and 0 of 0."""
    make = call.make
    size = make.unary("sqrt", _square(make, x))
    there = make.compared("greater", size, 0.0)

    def part(one: Value) -> Value:
        zero = make.full(0.0, one.dtype, ())
        quotient = make.binary("divide", one, size)
        return make.graph.add("where", (there, quotient, zero), one.dtype, one.shape)

    return complex_of(make, *(part(one) for one in parts_of(make, x)))


@operation("angle")
def _angle(call: Call, x: Value) -> Value:
    if not is_complex(x):
        raise Inexpressible("the angle of a real number")
    real, imaginary = parts_of(call.make, x)
    return call.make.binary("atan2", imaginary, real, call.dtype)


def _added(primitive: str) -> Callable[..., Value]:
    def added(call: Call, x: Any, other: Any, alpha: Any = 1) -> Value:
        make = call.make
        if alpha != 1:
            raise Inexpressible("a scaled complex term")
        pairs = zip(*(parts_of(make, _as_value(call, term)) for term in (x, other)))
        return complex_of(make, *(make.binary(primitive, one, two) for one, two in pairs))

    return added


def _negated(call: Call, x: Value) -> Value:
    make = call.make
    return complex_of(make, *(make.unary("negate", part) for part in parts_of(make, x)))


def _of_parts(call: Call) -> Call:
    """A call of the same operation whose result is one part of this one's."""
    return Call(call.make, [PARTS[dtype] for dtype in call.dtypes], call.shapes, call.overload)


def _part_by_part(name: str) -> Callable[..., Value]:
    """An operation that does the same to both parts."""
    plain = TABLE[name]

    def translated(call: Call, x: Value, *args: Any, **kwargs: Any) -> Value:
        parts = parts_of(call.make, x)
        return complex_of(
            call.make, *(plain(_of_parts(call), part, *args, **kwargs) for part in parts)
        )

    return translated


def _product_of_matrices(name: str) -> Callable[..., Value]:
    plain = TABLE[name]

    def translated(call: Call, x: Value, mat2: Value) -> Value:
        make, of_parts = call.make, _of_parts(call)
        (a, b), (c, d) = parts_of(make, x), parts_of(make, mat2)
        real = make.binary("subtract", plain(of_parts, a, c), plain(of_parts, b, d))
        return complex_of(
            make, real, make.binary("add", plain(of_parts, a, d), plain(of_parts, b, c))
        )

    return translated


def _also_complex(name: str, translation: Callable[..., Value]) -> None:
    """Registers what an operation does with complex results beside what it does with others."""
    plain = TABLE[name]

    def either(call: Call, *args: Any, **kwargs: Any) -> Any:
        chosen = translation if call.dtype.startswith("complex") else plain
        return chosen(call, *args, **kwargs)

    TABLE[name] = either


def _chosen(call: Call, condition: Value, x: Any, other: Any) -> Value:
    make = call.make
    pairs = zip(*(parts_of(make, _as_value(call, one)) for one in (x, other)))
    parts = [
        make.graph.add("where", (condition, *pair), pair[0].dtype, call.shape) for pair in pairs
    ]
    return complex_of(make, *parts)


_also_complex("where", _chosen)
_also_complex("mul", _multiplied)
_also_complex("add", _added("add"))
_also_complex("sub", _added("subtract"))
_also_complex("neg", _negated)
_also_complex("div", _divided)
_also_complex("exp", _exponential)
_also_complex("sgn", _sign)
for _linear in ("sum", "mean"):
    _also_complex(_linear, _part_by_part(_linear))
for _of_matrices in ("mm", "bmm"):
    _also_complex(_of_matrices, _product_of_matrices(_of_matrices))


def _of_complex(name: str, translation: Callable[..., Value]) -> None:
    """Registers what an operation with real results does with complex arguments."""
    plain = TABLE[name]

    def either(call: Call, x: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = translation if any(map(is_complex, (x, *args, *kwargs.values()))) else plain
        return chosen(call, x, *args, **kwargs)

    TABLE[name] = either


def _size(call: Call, x: Value) -> Value:
    return call.make.unary("sqrt", _square(call.make, x), call.dtype)


def _equal(call: Call, x: Any, other: Any) -> Value:
    make = call.make
    kind = next(value.dtype for value in (x, other) if is_complex(value))
    of_kind = Call(make, [kind], call.shapes)
    (a, b), (c, d) = (parts_of(make, _as_value(of_kind, one)) for one in (x, other))
    real, imaginary = make.binary("equal", a, c, "bool"), make.binary("equal", b, d, "bool")
    return make.binary("logical_and", real, imaginary, "bool")


def _unequal(call: Call, x: Any, other: Any) -> Value:
    return call.make.unary("logical_not", _equal(call, x, other), "bool")


_of_complex("abs", _size)
_of_complex("eq", _equal)
_of_complex("ne", _unequal)
