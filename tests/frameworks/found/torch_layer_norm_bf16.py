"""torch 2.13.0: the backward of LayerNorm on the CPU with bf16 inputs and float32 weights, as under
autocast.

The gradients of weight and bias are sums over all rows. Every thread adds its rows up in bf16, so
that they are off by far more than a rounding although they are stored in float32. Fails once it is
mended.
"""

from __future__ import annotations

import torch

WIDTH = 64
# Rows -> what the gradient of the weight is off by at least, relative to its norm.
LEAST = {256: 0.01, 4096: 0.04, 16384: 0.1}


def gradients(rows, dtype):
    """Those of weight and bias, of the same numbers in `dtype`."""
    generator = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(rows, WIDTH, generator=generator).bfloat16() for _ in range(2))
    norm = torch.nn.LayerNorm(WIDTH, dtype=torch.float32 if dtype == torch.bfloat16 else dtype)
    norm(x.to(dtype)).backward(gradient.to(dtype))
    return norm.weight.grad.double(), norm.bias.grad.double()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for rows, least in LEAST.items():
        errors = [
            float((narrow - right).norm() / right.norm())
            for narrow, right in zip(
                gradients(rows, torch.bfloat16), gradients(rows, torch.float64), strict=True
            )
        ]
        print(f"{rows} rows: weight {errors[0]:.1%}, bias {errors[1]:.1%} off")
        assert errors[0] > least, "added up in a wider type: mended"
