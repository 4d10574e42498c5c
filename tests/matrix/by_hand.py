"""A small language model with attention and experts, and what a user gives to cut it over ranks of
context and of expert parallelism by hand. Faults are planted where a user would make them."""

from __future__ import annotations

import torch
from torch import distributed, nn

import ttrace_torch as tt
from ttrace_torch.testing import Cut

WORDS, HIDDEN, LENGTH, EXPERTS = 32, 16, 8, 4


class Whole(nn.Module):
    """Keys and values are there already: one process has the whole sequence."""

    def forward(self, x):
        return x.view_as(x)  # a tensor of its own, with a gradient of its own


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN)
        # The gradient of the keys' bias is zero but for rounding: over context, the terms of the
        # ranks cancel.
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)
        self.gather = Whole()
        self.first = 0  # the position of this rank's first token

    def forward(self, x):
        query = self.query(x)
        key, value = self.gather(self.key(x)), self.gather(self.value(x))
        scores = query @ key.transpose(1, 2) / HIDDEN**0.5
        own = torch.arange(query.shape[1])[:, None] + self.first
        later = torch.arange(key.shape[1])[None, :] > own
        return scores.masked_fill(later, float("-inf")).softmax(-1) @ value


class Experts(nn.Module):
    """Every token goes through all experts, weighed by the router's shares."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, HIDDEN, HIDDEN) / HIDDEN**0.5)
        self.mine = slice(0, EXPERTS)

    def forward(self, x, shares):
        done = torch.tanh(torch.einsum("bth,ehk->btek", x, self.weight))
        return (done * shares[..., self.mine, None]).sum(2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.router = nn.Linear(HIDDEN, EXPERTS)
        self.enter, self.leave = Whole(), Whole()
        self.experts = Experts()

    def forward(self, x):
        x = x + self.attention(x)
        shares = self.router(x).softmax(-1)
        return x + self.leave(self.experts(self.enter(x), self.enter(shares)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def batches():
    ids = torch.randint(WORDS, (4, 2, LENGTH + 1))
    return [(row[:, :-1].contiguous(), row[:, 1:].contiguous()) for row in ids]


def loss_of(logits, labels):
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def collective(forward, backward):
    """A function whose backward is another collective than autograd would take."""

    class Collective(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return forward(x)

        @staticmethod
        def backward(ctx, gradient):
            return backward(gradient)

    return Collective.apply


class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def summed(x, group):
    x = x.clone().contiguous()
    distributed.all_reduce(x, group=group)
    return x


def over_context(model, mesh, sums=True):
    """A rank has a part of the sequence, and gathers keys and values.

    sums: whether the gradients, each of the rank's own tokens, are summed before the optimizer.
    """
    group, rank, ranks = mesh.get_group("cp"), mesh.get_local_rank("cp"), mesh["cp"].size()

    def gathered(x):
        parts = [torch.empty_like(x) for _ in range(ranks)]
        distributed.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, 1)

    def own(x):
        return x.chunk(ranks, 1)[rank].contiguous()

    gather = collective(gathered, lambda gradient: own(summed(gradient, group)))
    for layer in model.layers:
        layer.attention.gather = Applied(gather)
        layer.attention.first = rank * LENGTH // ranks

    def sum_gradients(model):
        for parameter in model.parameters():
            gradient = parameter.grad
            local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            distributed.all_reduce(local, group=group)

    part, terms = {"cp": tt.Shard(1)}, {"cp": tt.Partial("sum")}
    layouts = [
        tt.Layout("*", part, part, param_grads={"*": terms}),
        tt.Layout("*.gather", input=part, output={}, grad_output=terms),
    ]
    return Cut(
        layouts,
        batch=lambda batch: tuple(own(one) for one in batch),
        loss={"cp": tt.Partial("mean")},
        target=part,
        after_backward=sum_gradients if sums else None,
    )


def over_experts(model, mesh, swapped=False):
    """A rank has some of the experts, and the sum over all is made when they are done.

    swapped: a fault: the ranks take each other's experts of the second layer.
    """
    group, rank, ranks = mesh.get_group("ep"), mesh.get_local_rank("ep"), mesh["ep"].size()
    enter = collective(lambda x: x.view_as(x), lambda gradient: summed(gradient, group))
    leave = collective(lambda x: summed(x, group), lambda gradient: gradient)
    share = EXPERTS // ranks
    for number, layer in enumerate(model.layers):
        layer.enter, layer.leave = Applied(enter), Applied(leave)
        mine = slice(rank * share, (rank + 1) * share)
        layer.experts.mine = mine
        taken = slice(EXPERTS - mine.stop, EXPERTS - mine.start) if swapped and number else mine
        layer.experts.weight = nn.Parameter(layer.experts.weight.detach()[taken].clone())
    cut = tt.Layout(
        "*.experts", output={"ep": tt.Partial("sum")}, params={"*": {"ep": tt.Shard(0)}}
    )
    terms = {"ep": tt.Partial("sum")}
    return Cut([cut, tt.Layout("*.enter", grad_output=terms), tt.Layout("*.leave", input=terms)])


def parallelize(model, mesh, sequence):
    return over_context(model, mesh) if "cp" in mesh.mesh_dim_names else over_experts(model, mesh)


def forgets_context(model, mesh, sequence):
    return over_context(model, mesh, sums=False)


def swaps_experts(model, mesh, sequence):
    return over_experts(model, mesh, swapped=True)


def cuts_nothing(model, mesh, sequence):
    return None
