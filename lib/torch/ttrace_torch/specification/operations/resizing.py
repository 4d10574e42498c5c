"""Images made larger or smaller: a product with one matrix for each dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

# A specification lists the matrix element by element, and its readers accept no longer list.
_MOST_NUMBERS = 4096
# PyTorch decomposes the forward of the first three.
_DECOMPOSED = ("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d")
_WHOLE = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")


def _register_forward(name: str) -> None:
    @operation(name)
    def _resized(
        call: Call, x: Value | None = None, input: Value | None = None, **given: Any
    ) -> Value:
        image = x or input
        assert image is not None
        sizes = list(zip(image.shape[2:], call.shape[2:]))
        return _products(call, image, name, sizes, given, False)


def _register_gradient(name: str) -> None:
    @operation(f"{name}_backward")
    def _gradient(call: Call, grad_output: Value, input_size: Sequence[int], **given: Any) -> Value:
        sizes = list(zip(input_size[2:], grad_output.shape[2:]))
        return _products(call, grad_output, name, sizes, given, True)


def _products(
    call: Call,
    x: Value,
    name: str,
    sizes: Sequence[tuple[int, int]],
    given: Mapping[str, Any],
    backward: bool,
) -> Value:
    """x [N, C, ...] times the matrix of each dimension, or its transpose; as in PyTorch, 16-bit
    types are computed in float32.

    sizes: before and after the interpolation, for each dimension of an image.
    given: the other arguments: align_corners, and a scale for each dimension or all in a list.
    """
    make, result = call.make, call.dtype
    dtype = "float64" if result == "float64" else "float32"
    scales = given.get("scale_factors") or [
        given.get(key) for key in (("scales",) if len(sizes) == 1 else ("scales_h", "scales_w"))
    ]
    x = make.cast(x, dtype)
    for turn, size in enumerate(sizes):
        alone: list[float | None] = [None] * len(sizes)
        alone[turn] = scales[turn]
        factor = _matrix(name, turn, size, bool(given["align_corners"]), alone, backward)
        if factor is None:
            continue
        matrix = _placed(call, factor, max(size), dtype)
        dim, last = 2 + turn, 1 + len(sizes)
        x = make.transpose(make.matmul(make.transpose(x, dim, last), matrix, dtype), dim, last)
    return make.cast(x, result)


def _placed(call: Call, factor: torch.Tensor, extent: int, dtype: str) -> Value:
    """The matrix with a rounding of each weight for its place in an image of `extent`: other
    kernels, such as those of a GPU, round the place differently, which changes the weight as much.
    """
    make, shape = call.make, tuple(factor.shape)
    weights = make.literal(factor.flatten().tolist(), dtype, shape)
    place = ((factor != 0) * extent).flatten().tolist()
    places = make.literal([float(number) for number in place], dtype, shape)
    return make.binary("subtract", make.binary("add", weights, places), places)


def _matrix(
    name: str,
    turn: int,
    size: tuple[int, int],
    align_corners: bool,
    scales: Sequence[float | None],
    backward: bool,
) -> torch.Tensor | None:
    """The matrix that rows are multiplied with, float32: [before, after], or [after, before] for
    the gradient. It is PyTorch's result for the columns of an identity. None if it is an identity
    itself."""
    before, after = size
    if before < 0 or after < 0 or before * after > _MOST_NUMBERS:
        raise Inexpressible("an image whose interpolation takes a large matrix")
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    resize = getattr(torch.ops.aten, name).default
    gradient = getattr(torch.ops.aten, f"{name}_backward").default
    # Elsewhere two wide: PyTorch resizes images of width 1 wrongly (tests/frameworks/found).
    image, wanted = [2] * len(scales), [2] * len(scales)
    image[turn], wanted[turn] = size
    with unset_fake_temporarily(), torch.no_grad(), torch._C._DisableAutocast():
        one = _identity(turn, image)
        forward = _rows(resize(one, wanted, align_corners, *scales), turn)
        if torch.equal(forward, _rows(one, turn)):
            return None
        if not backward:
            return forward
        one = _identity(turn, wanted)
        shape = [1, after, *image]
        back = _rows(gradient(one, wanted, shape, align_corners, *scales), turn)
    # The gradient's weights have roundings of their own. If PyTorch's gradient is wrong, takes that
    # of the forward, so that the audit finds the bug.
    return back if torch.allclose(back, forward.T, rtol=0, atol=1e-5) else forward.T.contiguous()


def _identity(turn: int, image: Sequence[int]) -> torch.Tensor:
    """[1, n, ...]: channel i is 1 at i along dimension `turn` of the image, and 0 elsewhere."""
    count = image[turn]
    rows = torch.eye(count, dtype=torch.float32, device="cpu")
    rows = rows.reshape(1, count, *(count if dim == turn else 1 for dim in range(len(image))))
    return rows.expand(1, count, *image).contiguous()


def _rows(images: torch.Tensor, turn: int) -> torch.Tensor:
    """[channel, dimension `turn`] of images that are alike along all other dimensions."""
    for dim in reversed(range(images.dim() - 2)):
        images = images if dim == turn else images.select(2 + dim, 0)
    return images[0].contiguous()


for _name in (*_DECOMPOSED, *_WHOLE):
    _register_gradient(_name)
for _name in _WHOLE:
    _register_forward(_name)
