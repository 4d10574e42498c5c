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


IGNORED = -100  # the label of padding


def valid_tokens(config: Config, step: int) -> int:
    """Counts the labels of the whole step that are not padding."""
    labels = (tokens(config, step, number)[1] for number in range(config.microbatches))
    return sum(int((x >= 0).sum()) for x in labels)


def tokens(config: Config, step: int, microbatch: int) -> tuple[Tensor, Tensor]:
    """Returns ids and labels, int64 [sequence, batch].

    Each token follows from the one before by a fixed rule, so there is something to learn; the
    label of a position is the next token. With padding, each sample has labels up to a length of
    its own.
    """
    shape = (1, config.batch)
    source = generator(config.seed, f"data/step{step}/microbatch{microbatch}")
    rows = [torch.randint(config.vocabulary, shape, generator=source)]
    for _ in range(config.sequence):
        rows.append((rows[-1] + 7) % config.vocabulary)
    sample = torch.cat(rows)
    ids, labels = sample[:-1].contiguous(), sample[1:].contiguous()
    if config.padding:
        lengths = torch.randint(1, config.sequence + 1, shape, generator=source)
        labels[torch.arange(config.sequence).unsqueeze(1) >= lengths] = IGNORED
    return ids, labels
