"""Operations on complex tensors, such as rotary embeddings compute with."""

from __future__ import annotations

from typing import Any, Callable

from ttrace_torch.specification.complexes import (
    PARTS,
    complex_of,
    conjugate,
    is_complex,
    parts_of,
)
from ttrace_torch.specification.expressions import Inexpressible
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


@operation("conj_physical", "_conj_physical")
def _conj_physical(call: Call, x: Value) -> Value:
    return conjugate(call.make, x) if is_complex(x) else x


def _multiplied(call: Call, x: Any, other: Any) -> Value:
    make = call.make
    if not isinstance(x, Value) or not isinstance(other, Value):
        tensor, number = (x, other) if isinstance(x, Value) else (other, x)
        if not isinstance(number, (int, float)):
            raise Inexpressible("a complex number of the script")
        scaled = (make.binary("multiply", part, number) for part in parts_of(make, tensor))
        return complex_of(make, *scaled)

    def product(one: Value, two: Value) -> Value:
        return make.binary("multiply", one, two)

    (a, b), (c, d) = parts_of(make, x), parts_of(make, other)
    if not is_complex(other):
        return complex_of(make, product(a, c), product(b, c))
    if not is_complex(x):
        return complex_of(make, product(a, c), product(a, d))
    real = make.binary("subtract", product(a, c), product(b, d))
    return complex_of(make, real, make.binary("add", product(a, d), product(b, c)))


def _added(primitive: str) -> Callable[..., Value]:
    def added(call: Call, x: Any, other: Any, alpha: Any = 1) -> Value:
        make = call.make
        if alpha != 1 or not isinstance(x, Value) or not isinstance(other, Value):
            raise Inexpressible("a sum with complex numbers of the script")
        pairs = zip(parts_of(make, x), parts_of(make, other))
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


_also_complex("mul", _multiplied)
_also_complex("add", _added("add"))
_also_complex("sub", _added("subtract"))
_also_complex("neg", _negated)
for _linear in ("sum", "mean"):
    _also_complex(_linear, _part_by_part(_linear))
for _product in ("mm", "bmm"):
    _also_complex(_product, _product_of_matrices(_product))
