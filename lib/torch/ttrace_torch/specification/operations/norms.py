"""Normalisations and their backwards."""

from __future__ import annotations

from collections.abc import Sequence

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, asked, operation

_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23}


@operation("native_layer_norm")
def _layer_norm(
    call: Call,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    make, facts = call.make, {"count": len(normalized_shape), "eps": float(eps)}
    out = make.with_optional(
        "layer_norm",
        [("x", input), ("weight", weight), ("bias", bias)],
        call.dtype,
        input.shape,
        **facts,
    )
    mean = make.graph.add("layer_norm_mean", (input,), call.dtypes[1], call.shapes[1], **facts)
    rstd = make.graph.add("layer_norm_rstd", (input,), call.dtypes[2], call.shapes[2], **facts)
    make.eps[rstd.id] = float(eps)
    return out, mean, rstd


@operation("native_layer_norm_backward")
def _layer_norm_backward(
    call: Call,
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    found = _backward(call, "layer_norm", grad_out, input, normalized_shape, rstd, weight)
    rest = range(len(input.shape) - len(normalized_shape))
    summed = call.make.reduce("sum", grad_out, rest) if rest else grad_out
    return asked([*found, summed], output_mask)


@operation("_fused_rms_norm")
def _rms_norm(
    call: Call,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    eps: float | None,
) -> tuple[Value, Value]:
    make, count = call.make, len(normalized_shape)
    eps = _EPSILON.get(input.dtype, 2.0**-23) if eps is None else float(eps)
    out = make.with_optional(
        "rms_norm",
        [("x", input), ("weight", weight)],
        call.dtype,
        input.shape,
        count=count,
        eps=eps,
    )
    wide = make.cast(input, call.dtypes[1])
    dims = range(len(input.shape) - count, len(input.shape))
    mean = make.reduce("mean", make.binary("multiply", wide, wide), dims, keep=True)
    rstd = make.unary("rsqrt", make.binary("add", mean, eps))
    make.eps[rstd.id] = eps
    return out, make.reshape(rstd, call.shapes[1])


@operation("_fused_rms_norm_backward")
def _rms_norm_backward(
    call: Call,
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    rstd: Value,
    weight: Value | None,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    found = _backward(call, "rms_norm", grad_out, input, normalized_shape, rstd, weight)
    return asked(found, output_mask)


def _backward(
    call: Call,
    norm: str,
    gradient: Value,
    x: Value,
    normalized_shape: Sequence[int],
    rstd: Value,
    weight: Value | None,
) -> list[Value]:
    make, count = call.make, len(normalized_shape)
    node = make.graph.nodes[rstd.id]
    source = node.arguments[0] if node.primitive in ("reshape", "cast") else rstd.id
    eps = make.eps.get(rstd.id, make.eps.get(source))
    if eps is None:
        raise Inexpressible("a normalisation whose forward is not known")
    facts = {"count": count, "eps": eps}
    to_input = make.with_optional(
        f"{norm}_grad_input",
        [("g", gradient), ("x", x), ("weight", weight)],
        gradient.dtype,
        x.shape,
        **facts,
    )
    shape = tuple(normalized_shape)
    dtype = gradient.dtype if weight is None else weight.dtype
    to_weight = make.graph.add(f"{norm}_grad_weight", (gradient, x), dtype, shape, **facts)
    return [to_input, to_weight]


@operation("_weight_norm_interface_backward")
def _weight_norm_backward(
    call: Call, grad_w: Value, saved_v: Value, saved_g: Value, saved_norms: Value, dim: int
) -> list[Value]:
    """Of w = g·v/‖v‖, with a norm for each index of `dim`."""
    make, dtype = call.make, call.dtype
    dim %= len(saved_v.shape)
    others = [d for d in range(len(saved_v.shape)) if d != dim]
    along = make.reduce("sum", make.binary("multiply", grad_w, saved_v, dtype), others, keep=True)
    share = make.binary("divide", along, saved_norms, dtype)
    turned = make.binary(
        "multiply", saved_v, make.binary("divide", share, saved_norms, dtype), dtype
    )
    across = make.binary("subtract", grad_w, turned, dtype)
    factor = make.binary("divide", saved_g, saved_norms, dtype)
    return [make.binary("multiply", across, factor, dtype), share]
