"""topk(sorted=False), as DeepSeek-V3's router calls it: the chosen experts come in any order."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH, TOKENS, EXPERTS, CHOSEN, GROUPS = 8, 12, 16, 4, 4
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Router(nn.Module):
    """Two of four groups by their two best experts, then the best experts of these groups.

    Returns the weights first, so that they come before the indices that they follow from.
    """

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.fault = None
        self.order = None

    def forward(self, x):
        scores = self.gate(x).sigmoid()
        groups = scores.view(-1, GROUPS, EXPERTS // GROUPS).topk(2, dim=-1, sorted=False)[0].sum(-1)
        best = groups.topk(2, dim=-1, sorted=False)[1]
        allowed = torch.zeros_like(groups).scatter_(1, best, 1).unsqueeze(-1)
        allowed = allowed.expand(-1, GROUPS, EXPERTS // GROUPS).reshape(-1, EXPERTS)
        masked = scores.masked_fill(~allowed.bool(), 0.0)
        chosen = masked.topk(CHOSEN, dim=-1, sorted=False)[1]
        if self.order is not None:
            chosen = self.order(chosen)
        if self.fault is not None:
            chosen = self.fault(chosen, masked)
        weights = scores.gather(1, chosen)
        return weights / weights.sum(-1, keepdim=True), chosen


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH)

    def forward(self, x, weights, chosen):
        return torch.einsum("tkio,ti,tk->to", self.weight[chosen], x, weights)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router = Router()
        self.experts = Experts()

    def forward(self, x):
        return self.experts(x, *self.router(x)).float().square().mean()


def next_expert(chosen, scores):
    """The last token goes to the best expert of those that were not chosen, instead of its best."""
    chosen, best = chosen.clone(), scores[-1].argsort(descending=True)
    chosen[-1, (chosen[-1] == best[0]).nonzero()[0, 0]] = best[CHOSEN]
    return chosen


def twice(chosen, scores):
    """The first token goes to one expert twice."""
    chosen = chosen.clone()
    chosen[0, 0] = chosen[0, 1]
    return chosen


def run_job(folder, dtype, fault=None, order=None, specification=None):
    model = Model().to(dtype)
    model.router.fault, model.router.order = fault, order
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    generator = torch.Generator().manual_seed(1)
    with tracer.step(0):
        for _ in range(2):
            x = torch.randn(TOKENS, WIDTH, generator=generator).to(dtype)
            (tracer.loss(model(x)) / 2).backward()
        optimizer.step()
    tracer.close()


def reversed_order(chosen):
    return chosen.flip(-1)


def rotated(chosen):
    return chosen.roll(1, -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_holds(tmp_path, dtype):
    run_job(tmp_path, DTYPES[dtype], specification=tmp_path / "specification.json")
    for order in None, reversed_order, rotated:
        run_job(tmp_path, DTYPES[dtype], order=order)
        answer = audited(tmp_path)
        assert answer.code == 0 and answer.judged == answer.tensors, (order, answer)


@pytest.mark.parametrize("fault", [next_expert, twice])
@pytest.mark.parametrize("dtype", DTYPES)
def test_expert_that_was_not_chosen_is_found(tmp_path, dtype, fault):
    run_job(tmp_path, DTYPES[dtype], specification=tmp_path / "specification.json")
    run_job(tmp_path, DTYPES[dtype], fault)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "output router[1]", answer
