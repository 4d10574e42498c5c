"""Layers that know the mesh: linear layers, embeddings, norm.

Activations are [sequence, batch, hidden]. "hidden layout" below is what lies between the
tensor-parallel regions: whole and equal on all ranks, or with sequence parallelism [s/tp, b, h].
"""

import torch.nn.functional as F
from torch import Tensor, nn

from gallery import bugs, fp8
from gallery.collectives import enter_tensor_region, leave_tensor_region
from gallery.config import Config
from gallery.parallel import ProcessMesh
from gallery.parameters import parameter


class ColumnParallelLinear(nn.Module):
    """Rows of the weight are cut over tp: hidden layout -> [s, b, outputs/tp]."""

    def __init__(self, config: Config, mesh: ProcessMesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.tp, self.sp = mesh["tp"], config.sp
        self.fp8 = fp8.Linear((mesh["cp"],), (self.tp,)) if config.precision == "fp8" else None
        self.weight = parameter((outputs, inputs), config.dtype, mesh, shards={"tp": 0})
        self.bias = parameter((outputs,), config.dtype, mesh, shards={"tp": 0})

    def forward(self, x: Tensor) -> Tensor:
        x = enter_tensor_region(x, self.tp, self.sp)
        if self.fp8 is not None:
            return self.fp8(x, self.weight) + self.bias
        return F.linear(x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Columns of the weight are cut over tp: [s, b, inputs/tp] -> hidden layout.

    The bias is added once, after the sum; with sequence parallelism to this rank's tokens only.
    """

    def __init__(self, config: Config, mesh: ProcessMesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.tp, self.sp = mesh["tp"], config.sp
        cut_x = mesh["cp"], self.tp
        self.fp8 = fp8.Linear(cut_x, (self.tp,)) if config.precision == "fp8" else None
        self.weight = parameter((outputs, inputs), config.dtype, mesh, shards={"tp": 1})
        self.bias = parameter((outputs,), config.dtype, mesh, sequence_parallel=config.sp)

    def forward(self, x: Tensor) -> Tensor:
        multiply = F.linear if self.fp8 is None else self.fp8
        return leave_tensor_region(multiply(x, self.weight), self.tp, self.sp) + self.bias


class VocabularyParallelEmbedding(nn.Module):
    """Rows of the weight are cut over tp: ids [s, b] -> hidden layout."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.tp, self.sp = mesh["tp"], config.sp
        shape = (config.vocabulary, config.hidden)
        self.weight = parameter(shape, config.dtype, mesh, shards={"tp": 0})

    def forward(self, ids: Tensor) -> Tensor:
        row = ids - self.tp.index * self.weight.shape[0]
        elsewhere = (row < 0) | (row >= self.weight.shape[0])
        found = F.embedding(row.masked_fill(elsewhere, 0), self.weight)
        found = found.masked_fill(elsewhere.unsqueeze(-1), 0.0)
        return leave_tensor_region(found, self.tp, self.sp)


class PositionEmbedding(nn.Module):
    """One learned row for each position: positions [s] of this rank's tokens -> [s, 1, h]."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        shape = (config.sequence, config.hidden)
        self.weight = parameter(shape, config.dtype, mesh, sequence_parallel=config.sp)

    def forward(self, positions: Tensor) -> Tensor:
        return F.embedding(positions, self.weight).unsqueeze(1)


class LayerNorm(nn.Module):
    """Normalises the hidden layout; with sequence parallelism it sees this rank's tokens only."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        flag = config.sp and not bugs.active("P12")
        shape = (config.hidden,)
        self.weight = parameter(shape, config.dtype, mesh, sequence_parallel=flag)
        self.bias = parameter(shape, config.dtype, mesh, sequence_parallel=flag)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class VocabularyParallelHead(nn.Module):
    """Multiplies with the word embedding's weight: hidden layout -> logits [s, b, v/tp].

    weight: the embedding's own; None where that is on another pipeline stage, then a copy is made.
    """

    def __init__(self, config: Config, mesh: ProcessMesh, weight: nn.Parameter | None) -> None:
        super().__init__()
        self.tp, self.sp = mesh["tp"], config.sp
        shape = (config.vocabulary, config.hidden)
        if weight is None:
            weight = parameter(shape, config.dtype, mesh, shards={"tp": 0})
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(enter_tensor_region(x, self.tp, self.sp), self.weight)
