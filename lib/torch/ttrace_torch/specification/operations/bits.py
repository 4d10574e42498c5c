"""Operations on the bits of whole numbers; on truths they are logical ones."""

from __future__ import annotations

from typing import Union

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import TABLE, Call, operation

Operand = Union[Value, int, bool]

_OF_TWO = ("and", "or", "xor")


def _register() -> None:
    for name in _OF_TWO:

        def of_two(call: Call, x: Operand, other: Operand, name: str = name) -> Value:
            kind = "logical" if call.dtype == "bool" else "bitwise"
            return call.make.binary(f"{kind}_{name}", x, other, call.dtype)

        TABLE[f"bitwise_{name}"] = TABLE[f"__{name}__"] = of_two


_register()


@operation("bitwise_not")
def _bitwise_not(call: Call, x: Value) -> Value:
    if call.dtype == "bool":
        return call.make.unary("logical_not", x, "bool")
    # All bits turned round: -1 - x, or the type's largest number less x.
    most = {"uint8": 255, "uint16": 65535, "uint32": 4294967295}.get(call.dtype, -1)
    return call.make.binary("subtract", most, x, call.dtype)


@operation("bitwise_left_shift", "__lshift__")
def _left_shift(call: Call, x: Operand, other: Operand) -> Value:
    return call.make.binary("multiply", x, _power_of_2(other), call.dtype)


@operation("bitwise_right_shift", "__rshift__")
def _right_shift(call: Call, x: Operand, other: Operand) -> Value:
    return call.make.binary("floor_divide", x, _power_of_2(other), call.dtype)


def _power_of_2(places: Operand) -> int:
    if isinstance(places, Value) or not 0 <= places < 53:
        raise Inexpressible("a shift by a number that depends on data, or is too large")
    return 1 << int(places)
