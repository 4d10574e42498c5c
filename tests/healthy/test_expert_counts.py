"""Experts whose tokens are sorted and counted, as transformers does it: counts are whole numbers,
and no rounding moves a token to another expert. A bound that lets one move lets every fault of an
expert pass."""

import json

import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

EXPERTS, WIDTH, TOKENS = 4, 16, 32


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / 4)

    def forward(self, tokens, chosen):
        expert, order = torch.sort(chosen.flatten(), stable=True)
        counts = torch.histc(expert.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        found = torch.nn.functional.grouped_mm(tokens[order], self.weight, offs=ends)
        return torch.zeros_like(found).index_copy(0, order, found)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = Experts()

    def forward(self, tokens):
        chosen = self.router(tokens).argmax(-1)
        return self.experts(tokens, chosen).square().mean()


def run_job(folder, specification=None, factor=None):
    model = Model()
    if factor is not None:
        scale = torch.ones(EXPERTS, 1, 1)
        scale[1] = factor
        model.experts.weight.register_hook(lambda gradient: gradient * scale)
    tracer = tt.trace(model, out=folder / "run.h5", specification=specification)
    with tracer.step(0):
        tokens = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
        tracer.loss(model(tokens)).backward()
    tracer.close()


def test_experts_are_judged_as_sharply_as_all_else(tmp_path):
    run_job(tmp_path, specification=tmp_path / "specification.json")
    healthy = audited(tmp_path)
    assert healthy.code == 0 and healthy.judged == healthy.tensors, healthy
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    bounds = [check["bound"] for one in report["results"] for check in one.get("checks", [])]
    assert max(bounds) < 1e-4, bounds
    run_job(tmp_path, factor=1.001)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "param_grad experts.weight", answer
