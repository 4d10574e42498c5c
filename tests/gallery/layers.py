"""Layers that know the mesh: linear layers, embeddings, norm.

Activations are [sequence, batch, hidden]. "hidden layout" below is what lies between the
tensor-parallel regions: whole and equal on all ranks, or with sequence parallelism [s/tp, b, h].
"""

import torch.nn.functional as F
from torch import Tensor, nn

from gallery import bugs, fp8
from gallery.collectives import enter_tensor_region, leave_tensor_region
from gallery.config import Config
from gallery.gathered_linear import gathered_linear
from gallery.parallel import ProcessMesh
from gallery.parameters import parameter


class ColumnParallelLinear(nn.Module):
    """Rows of the weight are cut over tp: hidden layout -> [s, b, outputs/tp]."""

    def __init__(self, config: Config, mesh: ProcessMesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.tp, self.sp = mesh["tp"], config.sp
        self.fp8 = fp8.linear(config, mesh, (mesh["cp"],), gathered=config.sp)
        self.weight = parameter((outputs, inputs), config.dtype, mesh, shards={"tp": 0})
        self.bias = parameter((outputs,), config.dtype, mesh, shards={"tp": 0})

    def forward(self, x: Tensor) -> Tensor:
        if self.sp and self.fp8 is None:
            return gathered_linear(x, self.weight, self.bias, self.tp)
        # Megatron's product with a frozen weight is a function of its own, which has to sum too.
        if not (bugs.active("G2") and not self.weight.requires_grad):
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
        self.fp8 = fp8.linear(config, mesh, (mesh["cp"], self.tp))
        self.weight = parameter((outputs, inputs), config.dtype, mesh, shards={"tp": 1})
        self.bias = parameter((outputs,), config.dtype, mesh, sequence_parallel=config.sp)

    def forward(self, x: Tensor) -> Tensor:
        multiply = F.linear if self.fp8 is None else self.fp8
        if bugs.active("G4"):
            return leave_tensor_region(multiply(x, self.weight) + self.bias, self.tp, self.sp)
        return leave_tensor_region(multiply(x, self.weight), self.tp, self.sp) + self.bias


class Linear(nn.Module):
    """Whole and equal on all ranks of tp; from hidden layout to hidden layout, not cut over tp."""

    def __init__(self, config: Config, mesh: ProcessMesh, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = parameter((outputs, inputs), config.dtype, mesh)
        self.bias = parameter((outputs,), config.dtype, mesh)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


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
        row = row.masked_fill(elsewhere, 0)
        found = F.embedding(row, self.weight)
        if bugs.active("P1"):
            # A hook after the product computes the mask anew, from ids that one before it changed.
            first = self.tp.index * self.weight.shape[0]
            elsewhere = (row < first) | (row >= first + self.weight.shape[0])
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
        self.tp = mesh["tp"]

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if bugs.active("P14"):
            # Their gradients are summed in the backward, and with all others of this kind again.
            weight, bias = (enter_tensor_region(p, self.tp, False) for p in (weight, bias))
        return F.layer_norm(x, self.weight.shape, weight, bias)


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
