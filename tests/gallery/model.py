"""The GPT. Its module names are the canonical names of the trace."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gallery.attention import Attention
from gallery.collectives import local_sequence
from gallery.config import Config
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


class Embedding(nn.Module):
    """Word plus position: ids [s, b] -> hidden layout."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.tp, self.sp = mesh["tp"], config.sp
        self.word = VocabularyParallelEmbedding(config, mesh)
        self.position = PositionEmbedding(config, mesh)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[0])
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
        self.mlp = Mlp(config, mesh)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """ids and labels, int64 [s, b] -> the loss of each token, fp32 [s, b]."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.embedding = Embedding(config, mesh)
        # Keyed by the layer's number in the whole model, so that its name stays the canonical
        # one wherever the layer is held.
        self.layers = nn.ModuleDict({str(n): Layer(config, mesh) for n in range(config.layers)})
        self.final_norm = LayerNorm(config, mesh)
        self.head = VocabularyParallelHead(config, mesh, self.embedding.word.weight)
        self.criterion = VocabularyParallelCrossEntropy(mesh)

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers.values():
            x = layer(x)
        return self.criterion(self.head(self.final_norm(x)), labels)
