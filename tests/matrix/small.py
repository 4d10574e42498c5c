"""A small language model for matrices, and what a user gives with it: how to cut it by tensors and
into stages. Faults are planted by hand, each where a user would make it."""

from __future__ import annotations

import os
import time

import torch
from torch import distributed, nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

WORDS, HIDDEN, LENGTH = 32, 16, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def batches():
    ids = torch.randint(WORDS, (4, 2, LENGTH + 1))
    return [(row[:, :-1].contiguous(), row[:, 1:].contiguous()) for row in ids]


def loss_of(logits, labels):
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def parallelize(model, mesh, sequence, norms=True):
    """norms: whether the gradients of norms are summed, as sequence parallelism needs it."""
    residual = Shard(1) if sequence else Replicate()
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=residual),
        "head": ColwiseParallel(input_layouts=residual, output_layouts=Replicate()),
    }
    if sequence and norms:
        plan["norm"] = SequenceParallel(use_local_output=True)
    for number in range(len(model.layers)):
        layer = f"layers.{number}"
        if sequence and norms:
            plan[f"{layer}.norm"] = SequenceParallel(use_local_output=True)
        plan[f"{layer}.up"] = ColwiseParallel(input_layouts=residual)
        plan[f"{layer}.down"] = RowwiseParallel(output_layouts=residual)
    parallelize_module(model, mesh, plan)


def forgets_norms(model, mesh, sequence):
    parallelize(model, mesh, sequence, norms=False)


class Stage(nn.Module):
    def __init__(self, model, index, stages):
        super().__init__()
        share = len(model.layers) // stages
        self.embedding = model.embedding if index == 0 else None
        self.layers = nn.ModuleList(model.layers[index * share : (index + 1) * share])
        self.norm, self.head = (None, None) if index < stages - 1 else (model.norm, model.head)

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None else self.head(self.norm(x))


def loses_a_layer(model, index, stages):
    stage = Stage(model, index, stages)
    if index == 1:
        stage.layers = nn.ModuleList()
    return stage


class OfOwnRank(Model):
    """A model whose first layer is scaled on one rank."""

    def forward(self, ids):
        x = self.embedding(ids)
        for number, layer in enumerate(self.layers):
            x = layer(x) * (1.01 if number == 0 and os.environ["RANK"] == "1" else 1.0)
        return self.head(self.norm(x))


def differs():
    """A model that no seed makes twice."""
    model = Model()
    with torch.no_grad():
        model.head.weight[0, 0] = time.time_ns() % 1_000_003
    return model


def of_rank():
    """A model that is another one on rank 1."""
    model = Model()
    if os.environ["RANK"] == "1":
        nn.init.ones_(model.norm.bias)
    return model


class _Alone(Model):
    """A model that does something on rank 1 alone, in a layout of several."""

    def forward(self, ids):
        if distributed.is_initialized() and distributed.get_rank() == 1:
            self.alone()
        return super().forward(ids)


class Hangs(_Alone):
    def alone(self):
        time.sleep(1000)


class Dies(_Alone):
    def alone(self):
        os.kill(os.getpid(), 9)


class Raises(_Alone):
    def alone(self):
        raise ValueError("no such expert")


def where_it_runs(place, build):
    """A task of one rank, which needs what it was sent."""
    return [distributed.get_rank(), distributed.get_world_size(), len(list(build().children()))]
