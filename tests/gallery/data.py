"""Training data, by step and global micro-batch: every layout reads the same tokens."""

import torch
from torch import Tensor

from gallery.config import Config
from gallery.init import generator


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
