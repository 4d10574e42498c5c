"""Tensors that the step did not compute, and whose elements are part of the model."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from ttrace_torch.base import dtypes
from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import Value

# The most elements of a tensor whose values a specification lists one by one.
MOST = 4096
# The most for a buffer, which a trace does not record: tables of positions have some thousands.
MOST_OF_BUFFER = 65536
# The most elements of a tensor that is searched for a simple form, enough for a mask of 8,192
# tokens.
_MOST_LOOKED_AT = 2**26


def elements_of(tensor: torch.Tensor, most: int = MOST) -> list[Any] | None:
    """The elements of a small tensor in row-major order, of complex ones both parts; None where
    they are not at hand."""
    if tensor.is_complex() and tensor.layout == torch.strided:
        tensor = torch.view_as_real(tensor.detach().resolve_conj())
    real = _real(tensor)
    if real is None or real.numel() > most:
        return None
    with unset_fake_temporarily(), torch.no_grad():
        wide = real.detach().double() if real.dtype.is_floating_point else real.detach()
        return list(wide.flatten().tolist())


def constant_of(tensor: torch.Tensor, make: Expressions, most: int = MOST) -> Value | None:
    """An expression of a tensor's elements; None where they are not at hand, or are many and
    follow no rule."""
    real = _real(tensor)
    if real is None or real.numel() > _MOST_LOOKED_AT:
        return None
    dtype, shape = dtypes.DTYPES[real.dtype].name, tuple(real.shape)
    with unset_fake_temporarily(), torch.no_grad():
        if real.numel() == 0:
            return make.full(0, dtype, shape)
        flat = real.detach().flatten()
        if most == 1 and flat.numel() > 1:
            return None
        if bool((flat == flat[0]).all()):
            return make.full(flat[0].item(), dtype, shape)
        rule = _by_rule(real.detach(), make, dtype)
        if rule is not None or flat.numel() > most:
            return rule
        return make.literal(flat.tolist(), dtype, shape)


def is_zero(tensor: torch.Tensor) -> bool:
    """Whether all elements are at hand and 0."""
    real = _real(tensor)
    if real is None or not real.dtype.is_floating_point:
        return False
    with unset_fake_temporarily(), torch.no_grad():
        return not bool(real.detach().any())


def _by_rule(real: torch.Tensor, make: Expressions, dtype: str) -> Value | None:
    """Whole numbers one after the other, or a triangle of one value."""
    if real.dtype == torch.int64 and int((real.flatten().diff() - 1).abs().max()) == 0:
        start = int(real.flatten()[0])
        return make.reshape(make.arange(start, 1, real.numel(), dtype), tuple(real.shape))
    if real.dim() < 2:
        return None
    one = real.flatten()[real.flatten() != 0][0]
    for lower in (True, False):
        triangle = torch.full_like(real, one.item())
        triangle = triangle.tril() if lower else triangle.triu()
        if torch.equal(triangle, real):
            return make.unary(
                "triangle", make.full(one.item(), dtype, tuple(real.shape)), lower=lower, diagonal=0
            )
    return None


def _real(tensor: torch.Tensor) -> torch.Tensor | None:
    if isinstance(tensor, FakeTensor):
        constant: torch.Tensor | None = tensor.constant
        return constant
    if tensor.is_meta or tensor.layout != torch.strided or tensor.dtype not in dtypes.DTYPES:
        return None
    return tensor
