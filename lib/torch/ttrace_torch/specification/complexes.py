"""Complex values: pairs of real ones. Primitives are real, and so are the tensors of a trace, where
real and imaginary part lie along a last dimension. In the graph a complex value is a node of its
own that no expression reaches.
"""

from __future__ import annotations

from ttrace_torch.specification.expressions import Expressions, Inexpressible
from ttrace_torch.specification.graph import Value, attribute

PAIR = "(complex)"
# Complex type -> the type of its parts.
PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def is_complex(value: object) -> bool:
    """Whether a value of the graph is complex."""
    return isinstance(value, Value) and value.dtype in PARTS


def leaf_of(make: Expressions, dtype: str, shape: tuple[int, ...]) -> Value:
    """A new value that the step did not compute; a complex one is read from a real leaf."""
    if dtype not in PARTS:
        return make.graph.leaf(dtype, shape)
    return of_real(make, make.graph.leaf(PARTS[dtype], (*shape, 2)))


def of_number(make: Expressions, number: complex, dtype: str, shape: tuple[int, ...]) -> Value:
    """A number of the script as a complex value."""
    parts = (make.full(part, PARTS[dtype], shape) for part in (number.real, number.imag))
    return complex_of(make, *parts)


def complex_of(make: Expressions, real: Value, imaginary: Value) -> Value:
    """The value of two parts of one shape and type."""
    dtype = next(name for name, part in PARTS.items() if part == real.dtype)
    return make.graph.add(PAIR, (real, imaginary), dtype, real.shape)


def of_real(make: Expressions, joined: Value) -> Value:
    """The value whose parts lie along the last dimension of `joined`, and are read from there."""
    last = len(joined.shape) - 1
    shape = (*joined.shape[:-1], 1)
    parts = [
        make.graph.add(
            "slice", (joined,), joined.dtype, shape, dim=last, start=n, stop=n + 1, step=1
        )
        for n in (0, 1)
    ]
    return complex_of(make, *(make.reshape(part, shape[:-1]) for part in parts))


def real_of(make: Expressions, value: Value) -> Value:
    """Both parts along a new last dimension, as a trace holds them; Inexpressible as parts_of()."""
    parts = parts_of(make, value)
    sources = {_joined(make, part, turn) for turn, part in enumerate(parts)}
    if len(sources) == 1 and None not in sources:
        return make.graph.value(sources.pop() or 0)
    last = len(value.shape)
    return make.concat([make.reshape(part, (*value.shape, 1)) for part in parts], last)


def _joined(make: Expressions, part: Value, turn: int) -> int | None:
    """The value that of_real() split into this part and others; None if `part` is no such part."""
    node = make.graph.nodes[part.id]
    if node.primitive == "reshape":
        node = make.graph.nodes[node.arguments[0]]
    if node.primitive != "slice":
        return None
    source = make.graph.value(node.arguments[0])
    where = dict(node.attributes)
    last = len(source.shape) - 1
    is_part = (where["dim"], where["start"], where["stop"]) == (last, turn, turn + 1)
    return source.id if is_part and source.shape == (*part.shape, 2) else None


def parts_of(make: Expressions, value: Value) -> tuple[Value, Value]:
    """The real and the imaginary part of a complex value, or of one whose elements were only moved;
    raises Inexpressible for others."""
    node = make.graph.nodes[value.id]
    arguments = make.graph.arguments(value.id)
    if not is_complex(value):
        return value, make.full(0.0, value.dtype, value.shape)
    if node.primitive == PAIR:
        return arguments[0], arguments[1]
    if node.primitive == "concat":
        several = [parts_of(make, one) for one in arguments]
        dim = attribute(node, "dim")
        return make.concat([r for r, _ in several], dim), make.concat([i for _, i in several], dim)
    if node.primitive in ("reshape", "permute", "expand", "slice", "place", "flip", "gather"):
        real, imaginary = parts_of(make, arguments[0])
        return _moved(make, value, real), _moved(make, value, imaginary)
    if node.primitive == "replace":
        (one, two), (three, four) = (parts_of(make, given) for given in arguments)
        where = [attribute(node, name) for name in ("dim", "start", "stop", "step")]
        return make.replace(one, three, *where), make.replace(two, four, *where)
    if node.primitive == "where":
        pairs = zip(*(parts_of(make, given) for given in arguments[1:]))
        real, imaginary = (
            make.graph.add("where", (arguments[0], *pair), PARTS[value.dtype], value.shape)
            for pair in pairs
        )
        return real, imaginary
    if node.primitive == "full":
        real = make.full(attribute(node, "value"), PARTS[value.dtype], value.shape)
        return real, make.full(0.0, PARTS[value.dtype], value.shape)
    if node.primitive == "cast":
        part = PARTS[value.dtype]
        real, imaginary = parts_of(make, arguments[0])
        return make.cast(real, part), make.cast(imaginary, part)
    raise Inexpressible(f"{node.primitive} of {value.dtype}")


def conjugate(make: Expressions, value: Value) -> Value:
    """The value with its imaginary part negated."""
    real, imaginary = parts_of(make, value)
    return complex_of(make, real, make.unary("negate", imaginary))


def _moved(make: Expressions, value: Value, part: Value) -> Value:
    node = make.graph.nodes[value.id]
    if node.primitive == "reshape":
        return make.reshape(part, value.shape)
    if node.primitive == "permute":
        return make.permute(part, attribute(node, "dims"))
    if node.primitive == "expand":
        return make.expand(part, value.shape)
    others = [make.graph.value(number) for number in node.arguments[1:]]
    return make.graph.add(
        node.primitive, (part, *others), part.dtype, value.shape, **dict(node.attributes)
    )
