"""torch 2.11.0: conv2d in bf16, channels last, on a CPU that multiplies bf16 itself (AVX512_BF16,
AMX), where one window is the whole image, and the stride as large.

The output is Σ w·x + b over the window. oneDNN's kernel gives other numbers for 8 channels of 8x8
and 16 of 4x4, off by more than they are large; of 24 and more channels, of smaller strides, and
without oneDNN they are right. Known for conv3d as pytorch issue 169688.
Fails once it is mended; exits with 77 on a CPU without these instructions.
"""

from __future__ import annotations

import torch

# (channels, size of the image, the kernel and the stride), as PVT and SegFormer reduce them.
SHAPES = ((8, 8), (16, 4))
ROUNDING = 2.0**-8


def off(output, right):
    return float((output.double() - right).norm() / right.norm())


if __name__ == "__main__":
    if not torch.cpu._is_avx512_bf16_supported():
        print("this CPU does not multiply bf16 itself, and torch takes another kernel")
        raise SystemExit(77)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    for channels, size in SHAPES:
        x = torch.randn(2, channels, size, size, generator=generator).bfloat16()
        weight = torch.randn(channels, channels, size, size, generator=generator).bfloat16()
        x = x.to(memory_format=torch.channels_last)
        right = torch.einsum("nchw,ochw->no", x.double(), weight.double())[..., None, None]
        fast = off(torch.nn.functional.conv2d(x, weight, stride=size), right)
        with torch.backends.mkldnn.flags(enabled=False):
            slow = off(torch.nn.functional.conv2d(x, weight, stride=size), right)
        print(f"{channels} channels of {size}x{size}: {fast:.0%} off, without oneDNN {slow:.2%}")
        assert slow < ROUNDING
        assert fast > 0.5, "the sum of the window: mended"
