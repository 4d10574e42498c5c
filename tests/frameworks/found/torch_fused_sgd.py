"""torch 2.13.0: SGD(fused=True) of a bfloat16 or float16 parameter on the CPU.

The elements that lie in whole SIMD vectors are not updated: they stay p instead of p - lr * g. The
rest of the parameter, fewer than a vector, is updated. Fails once it is mended.
"""

from __future__ import annotations

import torch

SIZE = 70


def updated(dtype, fused):
    """A parameter of zeros after one step with the gradient 1, 2, 3, ... and the rate 1."""
    parameter = torch.nn.Parameter(torch.zeros(SIZE, dtype=dtype))
    parameter.grad = torch.arange(1, SIZE + 1, dtype=dtype)
    torch.optim.SGD([parameter], lr=1.0, fused=fused).step()
    return parameter.detach()


if __name__ == "__main__":
    for dtype in (torch.bfloat16, torch.float16):
        right, fused = updated(dtype, False), updated(dtype, True)
        stale = int((fused == 0).sum())
        print(f"{dtype}: {stale} of {SIZE} elements are not updated")
        assert stale > 0, "all elements are updated: mended"
        assert torch.equal(fused[stale:], right[stale:])
