"""Cross-entropy over logits whose vocabulary is cut over tp."""

import torch.distributed as dist
from torch import Tensor, nn

from gallery import bugs
from gallery.collectives import all_reduce, sum_over
from gallery.parallel import ProcessMesh


class VocabularyParallelCrossEntropy(nn.Module):
    """Logits [s, b, v/tp] and labels [s, b] -> the loss of each token, fp32 [s, b].

    That of padding, whose label is negative, is 0.
    """

    def __init__(self, mesh: ProcessMesh) -> None:
        super().__init__()
        self.tp = mesh["tp"]

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        logits = logits.float()
        largest = all_reduce(logits.amax(dim=-1), self.tp, dist.ReduceOp.MAX)
        logits = logits - largest.unsqueeze(-1)
        normaliser = sum_over(logits.exp().sum(dim=-1), self.tp)

        column = labels - self.tp.index * logits.shape[-1]
        elsewhere = (column < 0) | (column >= logits.shape[-1])
        target = logits.gather(-1, column.masked_fill(elsewhere, 0).unsqueeze(-1)).squeeze(-1)
        target = sum_over(target.masked_fill(elsewhere, 0.0), self.tp)
        return (normaliser.log() - target).masked_fill(labels < 0, 0.0)


def mean_loss(token_losses: Tensor, ranks: int = 1) -> Tensor:
    """The loss that is differentiated: the mean over the micro-batch's tokens.

    ranks: how many share the tokens out; this is then the rank's term of the mean over all.
    """
    mean = token_losses.mean()
    return mean if ranks == 1 else mean / ranks


def mean_loss_without_padding(
    token_losses: Tensor, labels: Tensor, tokens: float, ranks: int
) -> Tensor:
    """The same where some labels are padding.

    tokens: how many a micro-batch has on average, all those of the step. Each token then counts
        alike, in whichever micro-batch and on whichever rank it is.
    """
    if bugs.active("G8"):
        return token_losses.sum() / (labels >= 0).sum().clamp(min=1) / ranks
    return token_losses.sum() / tokens
