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
    return [*found, *[None] * (len(call.shapes) - 3)]


def _facts(query: Value, dropout_p: float, is_causal: bool, scale: float | None) -> dict[str, Any]:
    if dropout_p != 0:
        raise Inexpressible("random numbers")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return {"scale": scale, "causal": bool(is_causal)}
