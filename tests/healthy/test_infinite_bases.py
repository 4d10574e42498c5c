"""Writes into tensors that hold -inf, as routers of the kind of Llama 4's make them."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH, EXPERTS, CHOSEN = 8, 6, 2


class Router(nn.Module):
    """way: how the scores of the chosen experts are written into -inf."""

    def __init__(self, way):
        super().__init__()
        self.scores = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.way = way
        self.next = 0

    def forward(self, x):
        scores = self.scores(x)
        values, chosen = scores.topk(CHOSEN, dim=-1)
        chosen = (chosen + self.next) % EXPERTS if self.next else chosen
        lowest = torch.full_like(scores, float("-inf"))
        if self.way == "scatter":
            return lowest.scatter(1, chosen, values)
        if self.way == "scatter_":
            return lowest.scatter_(1, chosen, values)
        if self.way == "index_put":
            return lowest.index_put((torch.arange(len(x)), chosen[:, 0]), values[:, 0])
        held = scores.masked_fill(scores < values[:, -1:], float("-inf"))
        return held.scatter(1, chosen, values)


class Model(nn.Module):
    def __init__(self, way):
        super().__init__()
        torch.manual_seed(0)
        self.router = Router(way)
        self.experts = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) * 0.3)

    def forward(self, x):
        gates = torch.sigmoid(self.router(x))
        return torch.einsum("te,td,edh->th", gates, x, self.experts).square().mean()


def run_job(folder, way, dtype, next=0, specification=None):
    """next: by how much every chosen expert is off."""
    model = Model(way).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    model.router.next = next
    generator = torch.Generator().manual_seed(1)
    with tracer.step(0):
        for _ in range(2):
            x = torch.randn(10, WIDTH, generator=generator).to(dtype)
            (tracer.loss(model(x)) / 2).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("way", ["scatter", "scatter_", "index_put", "masked"])
def test_healthy_run_holds_and_next_expert_is_found(tmp_path, way, dtype):
    run_job(tmp_path, way, dtype, specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    run_job(tmp_path, way, dtype, next=1)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "output router", answer
