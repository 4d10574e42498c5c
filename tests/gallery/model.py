"""The GPT. Its module names are the canonical names of the trace."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gallery import bugs
from gallery.attention import Attention, MultiQueryAttention
from gallery.collectives import local_sequence
from gallery.config import Config
from gallery.dropout import Dropout, RandomState
from gallery.layers import (
    ColumnParallelLinear,
    LayerNorm,
    PositionEmbedding,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    VocabularyParallelHead,
)
from gallery.loss import VocabularyParallelCrossEntropy
from gallery.moe import Moe
from gallery.parallel import ProcessMesh
from gallery.ring import zigzag
from gallery.stages import canonical, stage_of
from gallery.virtual_stages import VirtualStages


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

    def __init__(self, config: Config, mesh: ProcessMesh, random: RandomState, name: str) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config, mesh)
        self.attn = (MultiQueryAttention if config.multi_query else Attention)(config, mesh)
        self.norm2 = LayerNorm(config, mesh)
        self.mlp = Moe(config, mesh) if config.experts else Mlp(config, mesh)
        self.drop1 = self.drop2 = None
        if config.dropout > 0:
            self.drop1 = Dropout(config, mesh, random, f"{name}.drop1")
            self.drop2 = Dropout(config, mesh, random, f"{name}.drop2")

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attn(self.norm1(x))
        x = x + (attended if self.drop1 is None else self.drop1(attended))
        returned = self.mlp(self.norm2(x))
        return x + (returned if self.drop2 is None else self.drop2(returned))


class Gpt(nn.Module):
    """ids and labels, int64 [s, b] -> the loss of each token, fp32 [s, b].

    Of a pipeline, one stage: all but the first go on with `received`, all but the last return
    the hidden layout.
    """

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.stage = stage_of(config, mesh)
        self.recompute = config.recompute
        self.random = RandomState()
        self.received: Tensor | None = None
        self.virtual: VirtualStages | None = None
        if config.vpp > 1:
            self.virtual = VirtualStages(mesh["pp"], config.hidden_shape, config.dtype)
        if self.stage.first:
            self.embedding = Embedding(config, mesh)
        # Keyed by the layer's number in the whole model, so that its name stays the canonical
        # one wherever the layer is held.
        self.layers = nn.ModuleDict(
            {str(n): Layer(config, mesh, self.random, f"layers.{n}") for n in self.stage.layers}
        )
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
        if self.virtual is not None:
            x = self.virtual.run(x, self.stage.chunks, self._run_layers)
        elif self.recompute:
            run = self.random.same_again(self._run_layers)
            x = checkpoint(run, x, use_reentrant=True, preserve_rng_state=False)
        else:
            x = self._run_layers(x)
        if not self.stage.last:
            return x
        return self.criterion(self.head(self.final_norm(x)), labels)

    def _run_layers(self, received: Tensor, numbers: Iterable[int] | None = None) -> Tensor:
        # Under recomputation this runs twice for each micro-batch, the first time without a graph.
        stale = bugs.active("P2") and torch.is_grad_enabled()
        x = received
        for number in self.stage.layers if numbers is None else numbers:
            x = self.layers[str(number)](received if stale else x)
        return x
