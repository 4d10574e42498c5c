"""Cross-entropy over logits whose vocabulary is cut over tp."""

import torch.distributed as dist
from torch import Tensor, nn

from gallery.collectives import all_reduce, sum_over
from gallery.parallel import ProcessMesh


class VocabularyParallelCrossEntropy(nn.Module):
    """Logits [s, b, v/tp] and labels [s, b] -> the loss of each token, fp32 [s, b]."""

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
        return normaliser.log() - target


def mean_loss(token_losses: Tensor, ranks: int = 1) -> Tensor:
    """The loss that is differentiated: the mean over the micro-batch's tokens.

    ranks: how many share the tokens out; this is then the rank's term of the mean over all.
    """
    mean = token_losses.mean()
    return mean if ranks == 1 else mean / ranks
