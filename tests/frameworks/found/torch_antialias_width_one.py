"""torch 2.13.0: `interpolate(antialias=True)` of images of width 1 on the CPU.

Each column of an image is resized alone, so that a column gives the same whether it is the only one
or stands beside a copy of itself. From the second row on it does not. Fails once it is mended.
"""

from __future__ import annotations

import torch
from torch.nn.functional import interpolate

ROWS, WANTED = 10, 4


def resized(image, mode):
    return interpolate(image, size=(WANTED, image.shape[-1]), mode=mode, antialias=True)


if __name__ == "__main__":
    generator = torch.Generator().manual_seed(0)
    column = torch.randn(2, 3, ROWS, 1, generator=generator)
    for mode in ("bilinear", "bicubic"):
        right = resized(column.expand(-1, -1, -1, 2).contiguous(), mode)[..., :1]
        errors = (resized(column, mode) - right).abs().amax((0, 1, 3))
        print(f"{mode}: rows off by", ", ".join(f"{error:.1e}" for error in errors.tolist()))
        assert errors[0] < 1e-6
        assert errors[1:].min() > 0.1, "each row is right: mended"
