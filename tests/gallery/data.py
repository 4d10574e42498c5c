"""Training data, by step and global micro-batch: every layout reads the same tokens."""

import torch
from torch import Tensor

from gallery import bugs
from gallery.config import Config
from gallery.init import generator
from gallery.parallel import Axis
from gallery.ring import zigzag


def local_tokens(config: Config, cp: Axis, step: int, microbatch: int) -> tuple[Tensor, Tensor]:
    """This rank's part of `tokens`, int64 [sequence / cp, batch]."""
    ids, labels = (zigzag(x, cp) for x in tokens(config, step, microbatch))
    if bugs.active("G12"):
        labels = ids.roll(-1, dims=0)
    return ids, labels


def tokens(config: Config, step: int, microbatch: int) -> tuple[Tensor, Tensor]:
    """Returns ids and labels, int64 [sequence, batch].

    Each token follows from the one before by a fixed rule, so there is something to learn; the
    label of a position is the next token.
    """
    shape = (1, config.batch)
    source = generator(config.seed, f"data/step{step}/microbatch{microbatch}")
    rows = [torch.randint(config.vocabulary, shape, generator=source)]
    for _ in range(config.sequence):
        rows.append((rows[-1] + 7) % config.vocabulary)
    sample = torch.cat(rows)
    return sample[:-1].contiguous(), sample[1:].contiguous()
