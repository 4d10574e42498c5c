"""torch 2.13.0: Adam, AdamW, Adagrad and SGD with fused=True of strided parameters on the CPU.

The kernels walk through parameter, gradient and state as through arrays of numel() elements,
whatever their strides: with p's storage P and g's storage G

    P[i] -= lr * G[i]  for i < numel     instead of     p[i, j] -= lr * g[i, j].

A parameter that is every second column of a buffer loses the second half of its update, and its
neighbours in the buffer, which belong to nobody or to another parameter, are changed in its place.
Fails once it is mended.
"""

from __future__ import annotations

import torch

ROWS, COLUMNS = 4, 8
FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)


def updated(cls, fused):
    """The buffer of zeros after one step of a parameter that is every second column of it."""
    buffer = torch.zeros(ROWS, 2 * COLUMNS)
    parameter = torch.nn.Parameter(buffer[:, ::2])
    assert parameter.data_ptr() == buffer.data_ptr()
    # What autograd leaves for a parameter with gaps: a contiguous gradient.
    parameter.grad = torch.arange(1.0, ROWS * COLUMNS + 1).view(ROWS, COLUMNS)
    cls([parameter], lr=1.0, fused=fused).step()
    return buffer, parameter


if __name__ == "__main__":
    for cls in FUSED:
        buffer, parameter = updated(cls, True)
        right, plain = updated(cls, False)
        strangers = int((buffer[:, 1::2] != 0).sum())
        stale = int((parameter.detach() == 0).sum())
        print(f"{cls.__name__}: {stale} elements not updated, {strangers} strangers changed")
        assert int((right[:, 1::2] != 0).sum()) == 0 and bool((plain != 0).all())
        assert stale > 0 and strangers > 0, "mended"
    gradient = torch.arange(1.0, ROWS * COLUMNS + 1)
    buffer, _ = updated(torch.optim.SGD, True)
    assert torch.equal(buffer.flatten()[: ROWS * COLUMNS], -gradient), "the formula is another one"
