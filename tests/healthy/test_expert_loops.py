"""Experts in a loop, each with the tokens that were routed to it, and rows chosen by a mask: how
many there are is decided by elements."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH, TOKENS, EXPERTS, CHOSEN = 8, 24, 4, 2
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Router(nn.Module):
    """The best experts of every token, and their weights."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(CHOSEN)
        return weights / weights.sum(-1, keepdim=True), chosen


class ExpertLoop(nn.Module):
    """Mixtral's and Switch's loop: every expert is a module and gets the rows of its tokens."""

    def __init__(self):
        super().__init__()
        self.router = Router()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))
        self.fault = None

    def forward(self, x):
        weights, chosen = self.router(x)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            rows = x[token]
            if self.fault is not None:
                token, rows = self.fault(number, token, rows)
            out.index_add_(0, token, expert(rows) * weights[token, place, None])
        return out


class HitExperts(nn.Module):
    """DBRX's: experts are slices of one weight, and only those that a token hits are computed."""

    def __init__(self):
        super().__init__()
        self.router = Router()
        self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH)
        self.fault = None

    def forward(self, x):
        weights, chosen = self.router(x)
        mask = nn.functional.one_hot(chosen, EXPERTS + 1).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for expert in mask.sum(dim=(-1, -2)).greater(0).nonzero():
            place, token = torch.where(mask[expert[0]])
            rows = x[token]
            if self.fault is not None:
                token, rows = self.fault(int(expert), token, rows)
            rows = rows @ self.weight[expert[0]]
            out.index_add_(0, token, rows * weights[token, place, None])
        return out


class Adapters(nn.Module):
    """X-MOD's: an adapter for each language, whose rows a mask reads and writes."""

    def __init__(self):
        super().__init__()
        self.adapters = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.unknown = nn.Parameter(torch.randn(WIDTH))
        self.fault = None

    def forward(self, x):
        language = torch.arange(TOKENS) % 3
        out = torch.zeros_like(x)
        for number, adapter in enumerate(self.adapters):
            rows = x[language == number]
            if self.fault is not None:
                _, rows = self.fault(number, None, rows)
            out[language == number] = adapter(rows)
        out[language == 2] = self.unknown
        return out + out.masked_select(out > 0).mean()


class Model(nn.Module):
    def __init__(self, layer):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Linear(WIDTH, WIDTH)
        self.layer = layer()
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.head(self.layer(self.embedding(x))).float().square().mean()


LAYERS = [ExpertLoop, HitExperts, Adapters]


def run_job(folder, layer, dtype, fault=None, out="run.h5", specification=None, seeds=(1, 2)):
    """seeds: of the data of each micro-batch."""
    model = Model(layer).to(dtype)
    model.layer.fault = fault
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / out, specification=specification)
    with tracer.step(0):
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            x = torch.randn(TOKENS, WIDTH, generator=generator).to(dtype)
            (tracer.loss(model(x)) / len(seeds)).backward()
        optimizer.step()
    tracer.close()


def next_token(number, token, rows):
    """The first row that expert 1 gets is another token's."""
    return token, torch.cat([rows[1:2], rows[1:]]) if number == 1 else rows


def lost_token(number, token, rows):
    """Expert 1 gives its first row to the token after the one that it is of."""
    if number == 1:
        token = torch.cat([token[:1] + 1, token[1:]])
    return token, rows


def faded_rows(number, token, rows):
    """Expert 1 gets rows that are 5 % larger."""
    return token, rows * 1.05 if number == 1 else rows


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_healthy_run_holds(tmp_path, layer, dtype):
    run_job(tmp_path, layer, DTYPES[dtype], specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer


# In a loop over modules the input of the expert is recorded, and wrong already.
FAULTS = [
    (ExpertLoop, next_token, "input layer.experts.1"),
    (ExpertLoop, lost_token, "output layer"),
    (ExpertLoop, faded_rows, "input layer.experts.1"),
    (HitExperts, next_token, "output layer"),
    (HitExperts, lost_token, "output layer"),
    (HitExperts, faded_rows, "output layer"),
    (Adapters, next_token, "input layer.adapters.1"),
    (Adapters, faded_rows, "input layer.adapters.1"),
]


@pytest.mark.parametrize(("layer", "fault", "place"), FAULTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_fault_is_found(tmp_path, layer, fault, place, dtype):
    run_job(tmp_path, layer, DTYPES[dtype], specification=tmp_path / "specification.json")
    run_job(tmp_path, layer, DTYPES[dtype], fault)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == place, answer


def test_choice_of_another_number_is_not_judged(tmp_path):
    """Another batch routes other numbers of tokens than the one that is specified."""
    specification = tmp_path / "specification.json"
    run_job(tmp_path, HitExperts, torch.float32, specification=specification)
    run_job(tmp_path, HitExperts, torch.float32, seeds=(1, 3))
    answer = audited(tmp_path)
    assert not answer.found and answer.judged < answer.tensors, answer
    assert "its sizes depend on data" in (tmp_path / "report.json").read_text(encoding="utf-8")
