"""Fused attention, for every kernel that PyTorch has."""

from __future__ import annotations

import math
from typing import Any

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

_KERNELS = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
_FORWARD = [f"_scaled_dot_product_{kernel}" for kernel in _KERNELS]
_BACKWARD = [f"{kernel}_backward" for kernel in _FORWARD]


@operation(*_FORWARD, "scaled_dot_product_attention")
def _attention(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **other: Any,
) -> list[Value | None]:
    mask = other.get("attn_mask", other.get("attn_bias"))
    given = [("q", query), ("k", key), ("v", value), ("mask", mask)]
    facts = _facts(query, dropout_p, is_causal, scale)
    shape = (*query.shape[:-1], value.shape[-1])
    found = call.make.with_optional("attention", given, query.dtype, shape, **facts)
    return [found, *[None] * (len(call.shapes) - 1)]


@operation(*_BACKWARD)
def _attention_backward(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **other: Any,
) -> list[Value | None]:
    mask = other.get("attn_mask", other.get("attn_bias"))
    gradient = other.get("grad_out", other.get("grad_out_"))
    if gradient is None:
        raise Inexpressible("a gradient by another name")
    given = [("g", gradient), ("q", query), ("k", key), ("v", value), ("mask", mask)]
    facts = _facts(query, dropout_p, is_causal, scale)
    found: list[Value | None] = [
        call.make.with_optional(f"attention_grad_{which}", given, x.dtype, x.shape, **facts)
        for which, x in (("query", query), ("key", key), ("value", value))
    ]
    # The kernel that takes a bias and gives its gradient.
    if mask is not None and len(call.shapes) == 4 and other.get("grad_input_mask", [False])[-1]:
        found.append(_to_mask(call, gradient, query, key, value, mask, facts))
    return [*found, *[None] * (len(call.shapes) - len(found))]


def _to_mask(
    call: Call,
    gradient: Value,
    query: Value,
    key: Value,
    value: Value,
    mask: Value,
    facts: dict[str, Any],
) -> Value:
    """The gradient of what is added to the scores: that of the softmax's argument."""
    if facts["causal"]:
        raise Inexpressible("the gradient of a mask next to a causal one")
    make, wide = call.make, "float32"
    product = make.matmul(query, make.transpose(key), wide, None)
    scaled = make.binary("multiply", product, make.of(facts["scale"], wide), wide)
    scores = make.binary("add", scaled, make.cast(mask, wide), wide)
    dim = len(scores.shape) - 1
    weights = make.graph.add("softmax", (scores,), wide, scores.shape, dim=dim)
    given = make.matmul(gradient, make.transpose(value), wide, None)
    found = make.graph.add("softmax_grad", (given, weights), wide, scores.shape, dim=dim)
    spread = [dim for dim, size in enumerate(mask.shape) if size == 1 and found.shape[dim] != 1]
    return make.cast(make.reduce("sum", found, spread, True) if spread else found, mask.dtype)


def _facts(query: Value, dropout_p: float, is_causal: bool, scale: float | None) -> dict[str, Any]:
    if dropout_p != 0:
        raise Inexpressible("random numbers")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return {"scale": scale, "causal": bool(is_causal)}
