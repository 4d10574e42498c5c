"""Initial weights, by canonical name.

The whole tensor is drawn from a seed that its name gives, then the rank takes its part: every
layout starts from the same model.
"""

import hashlib
import math
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from gallery.parallel import ProcessMesh
from gallery.stages import canonical


def generator(seed: int, name: str) -> torch.Generator:
    """A generator of its own for every name. Python's `hash` would differ between processes."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def initialise(model: nn.Module, mesh: ProcessMesh, seed: int) -> None:
    """Fills every parameter of the model."""
    for name, parameter in model.named_parameters():
        shape = list(parameter.shape)
        for axis, dimension in parameter.shards.items():
            shape[dimension] *= mesh[axis].size
        part = _draw(canonical(name), tuple(shape), seed)
        for axis, dimension in parameter.shards.items():
            part = part.chunk(mesh[axis].size, dimension)[mesh[axis].index]
        with torch.no_grad():
            parameter.copy_(part)


def freeze(model: nn.Module, glob: str) -> None:
    """Excludes the parameters whose canonical names match from training."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not fnmatchcase(canonical(name), glob))


def _draw(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """Draws a whole parameter in fp32.

    Biases and norms start off their usual 0 and 1, where a bug in adding a bias or scaling by a
    weight would not show.
    """
    noise = torch.randn(shape, generator=generator(seed, name))
    if name.endswith("bias"):
        return 0.1 * noise
    if len(shape) == 1:
        return 1 + 0.1 * noise
    return noise / math.sqrt(shape[1])
