"""The GPT. Its module names are the canonical names of the trace."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gallery import bugs
from gallery.attention import Attention
from gallery.collectives import local_sequence
from gallery.config import Config
from gallery.experts import Moe
from gallery.layers import (
    ColumnParallelLinear,
    LayerNorm,
    PositionEmbedding,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    VocabularyParallelHead,
)
from gallery.loss import VocabularyParallelCrossEntropy
from gallery.parallel import ProcessMesh
from gallery.ring import zigzag
from gallery.stages import canonical, stage_of


class Embedding(nn.Module):
    """Word plus position: ids [s, b] -> hidden layout."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.tp, self.sp, self.cp = mesh["tp"], config.sp, mesh["cp"]
        self.word = VocabularyParallelEmbedding(config, mesh)
        self.position = PositionEmbedding(config, mesh)

    def forward(self, ids: Tensor) -> Tensor:
        positions = zigzag(torch.arange(ids.shape[0] * self.cp.size), self.cp)
        if self.sp:
            positions = local_sequence(positions, self.tp)
        return self.word(ids) + self.position(positions)


class Mlp(nn.Module):
    """fc1 -> gelu -> fc2, from hidden layout to hidden layout."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.fc1 = ColumnParallelLinear(config, mesh, config.hidden, config.ffn_hidden)
        self.fc2 = RowParallelLinear(config, mesh, config.ffn_hidden, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Layer(nn.Module):
    """A pre-norm transformer layer, from hidden layout to hidden layout."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config, mesh)
        self.attn = Attention(config, mesh)
        self.norm2 = LayerNorm(config, mesh)
        self.mlp = Moe(config, mesh) if config.experts else Mlp(config, mesh)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """ids and labels, int64 [s, b] -> the loss of each token, fp32 [s, b].

    Of a pipeline, one stage: all but the first go on with `received`, all but the last return
    the hidden layout.
    """

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.stage = stage_of(config, mesh)
        self.recompute = config.recompute
        self.received: Tensor | None = None
        if self.stage.first:
            self.embedding = Embedding(config, mesh)
        # Keyed by the layer's number in the whole model, so that its name stays the canonical
        # one wherever the layer is held.
        self.layers = nn.ModuleDict({str(n): Layer(config, mesh) for n in self.stage.layers})
        if self.stage.last:
            self.final_norm = LayerNorm(config, mesh)
            weight = self.embedding.word.weight if self.stage.first else None
            self.head = VocabularyParallelHead(config, mesh, weight)
            self.criterion = VocabularyParallelCrossEntropy(mesh)
        for name, parameter in self.named_parameters():
            if config.pp > 1 and canonical(name) == "embedding.word.weight":
                parameter.tied = True

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.embedding(ids) if self.stage.first else self.received
        if self.recompute:
            x = checkpoint(self._run_layers, x, use_reentrant=True, preserve_rng_state=False)
        else:
            x = self._run_layers(x)
        if not self.stage.last:
            return x
        return self.criterion(self.head(self.final_norm(x)), labels)

    def _run_layers(self, received: Tensor) -> Tensor:
        # Under recomputation this runs twice for each micro-batch, the first time without a graph.
        stale = bugs.active("P2") and torch.is_grad_enabled()
        x = received
        for layer in self.layers.values():
            x = layer(received if stale else x)
        return x
