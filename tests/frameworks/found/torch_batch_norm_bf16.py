"""torch 2.13.0: BatchNorm on the CPU with inputs and parameters in bf16 (`model.bfloat16()`).

The output is α·x + β with α = γ/σ and β = b − μ·γ/σ, both kept in bf16, from a mean and 1/σ
in bf16. What is lost grows with |μ|/σ: an eighth of the output at a mean of ten and two elements
a channel. With parameters in float32 it is within a rounding. Fails once it is mended.
"""

from __future__ import annotations

import torch

CHANNELS, EPS = 64, 1e-5
# (shape of a channel, mean) -> what the output is off by at least, relative to its norm.
LEAST = {((1, 1), 10): 0.1, ((1, 1), 0): 0.004, ((16, 16), 10): 0.01}
ROUNDING = 2.0**-8


def output(x, dtype):
    weight, bias = torch.ones(CHANNELS, dtype=dtype), torch.zeros(CHANNELS, dtype=dtype)
    return torch.nn.functional.batch_norm(x, None, None, weight, bias, True, 0.1, EPS).double()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for (size, mean), least in LEAST.items():
        generator = torch.Generator().manual_seed(0)
        x = (torch.randn(2, CHANNELS, *size, generator=generator) + mean).bfloat16()
        exact = x.double()
        middle = exact.mean((0, 2, 3), keepdim=True)
        spread = exact.var((0, 2, 3), unbiased=False, keepdim=True)
        right = (exact - middle) / (spread + EPS).sqrt()
        narrow, wide = (
            float((output(x, dtype) - right).norm() / right.norm())
            for dtype in (torch.bfloat16, torch.float32)
        )
        print(f"{size} around {mean}: {narrow:.1%} off, with float32 parameters {wide:.2%}")
        assert wide < ROUNDING
        assert narrow > least, "kept in a wider type: mended"
