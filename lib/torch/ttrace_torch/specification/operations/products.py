"""Matrix products."""

from __future__ import annotations

from typing import Any

from ttrace_torch.specification.expressions import Inexpressible, broadcast
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation


@operation("mm", "bmm")
def _mm(call: Call, x: Value, mat2: Value, **_: Any) -> Value:
    return call.make.matmul(x, mat2, call.dtype)


@operation("matmul")
def _matmul(call: Call, x: Value, other: Value) -> Value:
    make = call.make
    one = make.reshape(x, (1, *x.shape)) if len(x.shape) == 1 else x
    two = make.reshape(other, (*other.shape, 1)) if len(other.shape) == 1 else other
    return make.reshape(make.matmul(one, two, call.dtype), call.shape)


@operation("mv")
def _mv(call: Call, x: Value, vec: Value) -> Value:
    return _matmul(call, x, vec)


@operation("dot", "vdot")
def _dot(call: Call, x: Value, tensor: Value | None = None, other: Value | None = None) -> Value:
    return _matmul(call, x, tensor or other)  # type: ignore[arg-type]


@operation("linear")
def _linear(call: Call, input: Value, weight: Value, bias: Value | None = None) -> Value:
    product = call.make.matmul(input, call.make.transpose(weight), call.dtype)
    return product if bias is None else call.make.binary("add", product, bias, call.dtype)


@operation("addmm", "_addmm_activation")
def _addmm(
    call: Call, x: Value, mat1: Value, mat2: Value, beta: Any = 1, alpha: Any = 1, **other: Any
) -> Value:
    if other.get("use_gelu"):
        raise Inexpressible("a product with an activation")
    return _added(call, x, call.make.matmul(mat1, mat2, call.dtype), beta, alpha)


@operation("baddbmm")
def _baddbmm(
    call: Call, x: Value, batch1: Value, batch2: Value, beta: Any = 1, alpha: Any = 1, **_: Any
) -> Value:
    return _added(call, x, call.make.matmul(batch1, batch2, call.dtype), beta, alpha)


@operation("addbmm")
def _addbmm(
    call: Call, x: Value, batch1: Value, batch2: Value, beta: Any = 1, alpha: Any = 1
) -> Value:
    product = call.make.matmul(batch1, batch2, call.dtype)
    return _added(call, x, call.make.reduce("sum", product, 0), beta, alpha)


@operation("addmv")
def _addmv(call: Call, x: Value, mat: Value, vec: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    return _added(call, x, _matmul(call, mat, vec), beta, alpha)


def _added(call: Call, x: Value, product: Value, beta: Any, alpha: Any) -> Value:
    make = call.make
    if alpha != 1:
        product = make.binary("multiply", product, float(alpha), call.dtype)
    if beta == 0:
        # The elements of x do not matter, not even NaN.
        return product
    if beta != 1:
        x = make.binary("multiply", x, float(beta), call.dtype)
    return make.binary("add", x, product, call.dtype)


@operation("linalg_solve_triangular")
def _solve_triangular(
    call: Call,
    x: Value,
    B: Value,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """A · Z = B; from the right Z · A = B, which is Aᵀ · Zᵀ = Bᵀ."""
    make = call.make
    if not left:
        x, B = make.transpose(x), make.transpose(B)
    shape = (*broadcast(x.shape[:-2], B.shape[:-2]), *B.shape[-2:])
    facts = {"lower": bool(upper) != bool(left), "unit": bool(unitriangular)}
    solved = make.graph.add("triangular_solve", (x, B), call.dtype, shape, **facts)
    return solved if left else make.transpose(solved)


@operation("linalg_cholesky_ex")
def _cholesky(call: Call, x: Value, upper: bool = False, **_: Any) -> list[Value]:
    """The triangular factor, and that none failed."""
    make = call.make
    lower = make.transpose(x) if upper else x
    found = make.graph.add("cholesky", (lower,), call.dtype, lower.shape)
    info = make.full(0, call.dtypes[1], call.shapes[1])
    return [make.transpose(found) if upper else found, info]


@operation("cholesky_solve")
def _cholesky_solve(call: Call, x: Value, input2: Value, upper: bool = False) -> Value:
    """A · Z = X for the triangular factor of A: two triangular systems."""
    make = call.make
    lower = make.transpose(input2) if upper else input2
    shape = (*broadcast(x.shape[:-2], lower.shape[:-2]), *x.shape[-2:])
    facts = {"unit": False}
    half = make.graph.add("triangular_solve", (lower, x), call.dtype, shape, lower=True, **facts)
    back = (make.transpose(lower), half)
    return make.graph.add("triangular_solve", back, call.dtype, shape, lower=False, **facts)


@operation("_grouped_mm")
def _grouped_mm(
    call: Call,
    x: Value,
    mat2: Value,
    offs: Value | None = None,
    bias: Value | None = None,
    **_: Any,
) -> Value:
    """Products of the experts of a mixture: group e has the rows from offs[e − 1] to offs[e]."""
    make = call.make
    if offs is None or bias is not None or min((*x.shape, *mat2.shape)) < 0:
        raise Inexpressible("groups of a size that depends on data")
    if len(x.shape) == 2 and len(mat2.shape) == 3:
        rows = _members(call, offs, x.shape[0])
        rows = make.reshape(rows, (*rows.shape, 1))
        apart = make.matmul(make.binary("multiply", make.cast(rows, x.dtype), x), mat2, call.dtype)
        return make.reduce("sum", apart, 0)
    if len(x.shape) == 2 and len(mat2.shape) == 2:
        columns = _members(call, offs, x.shape[1])
        columns = make.reshape(columns, (columns.shape[0], 1, columns.shape[1]))
        chosen = make.binary("multiply", make.cast(columns, x.dtype), x)
        return make.matmul(chosen, mat2, call.dtype)
    raise Inexpressible("groups of this form")


def _members(call: Call, offs: Value, count: int) -> Value:
    """Which of `count` rows belong to which group, [groups, count]."""
    make = call.make
    groups = offs.shape[0]
    number = make.arange(0, 1, count, offs.dtype)
    ends = make.reshape(offs, (groups, 1))
    starts = make.place(make.slice(offs, 0, 0, groups - 1), (groups,), 0, 1, groups)
    after = make.binary("greater_equal", number, make.reshape(starts, (groups, 1)), "bool")
    before = make.binary("less", number, ends, "bool")
    return make.binary("logical_and", after, before, "bool")
