"""Arguments of a ReLU so near zero that rounding decides their sign: another order of the same sum
is no fault, and all gradients before it differ."""

import json

import pytest
import torch
from answers import compared
from halves import Halves
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt

TOKENS, WIDTH, HIDDEN = 256, 48, 128


class Block(nn.Module):
    def __init__(self, kink):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = Halves(WIDTH, HIDDEN)
        self.kink = kink
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return x + self.down(self.kink(self.up(self.norm(x))))


class Added(nn.Module):
    """The argument of its ReLU is a sum that no module returns, as in a residual network."""

    def __init__(self, kink):
        super().__init__()
        self.up = Halves(WIDTH, WIDTH)
        self.kink = kink

    def forward(self, x):
        return self.kink(self.up(x) + x)


class Model(nn.Module):
    def __init__(self, block, kink):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([block(kink()) for _ in range(2)])
        self.head = nn.Linear(WIDTH, 11)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def near_zero(model, x):
    """Makes an element of each column of the last argument zero within rounding."""
    block = model.blocks[-1]
    seen = {}
    handle = block.up.register_forward_hook(lambda _, inputs, output: seen.update(x=inputs[0]))
    with torch.no_grad():
        model(x)
        handle.remove()
        added = seen["x"] if isinstance(block, Added) else 0
        argument = nn.functional.linear(seen["x"], block.up.weight) + added
        column = torch.arange(argument.shape[1])
        block.up.bias.copy_(-argument[column % TOKENS, column])


def trained(path, block, kink, *, halves=False, plant=lambda model: None):
    torch.manual_seed(0)
    model = Model(block, kink)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(TOKENS, WIDTH, generator=generator)
    near_zero(model, x)
    for one in model.blocks:
        one.up.halves = halves
    plant(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=path)
    with tracer.step(0):
        labels = torch.arange(TOKENS) % 11
        tracer.loss(nn.functional.cross_entropy(model(x), labels)).backward()
        optimizer.step()
    tracer.close()


@pytest.fixture(scope="module", params=[Block, Added], ids=["returned", "added"])
def runs(request, tmp_path_factory):
    """A folder with the reference, and what trains a candidate beside it."""
    folder = tmp_path_factory.mktemp("kinks")
    trained(folder / "reference.h5", request.param, nn.ReLU)

    def candidate(run="run.h5", **how):
        trained(folder / run, request.param, how.pop("kink", nn.ReLU), halves=True, **how)
        return compared(folder, run)

    return folder, candidate


def test_other_order_of_a_sum_matches_and_the_room_is_said(runs):
    folder, candidate = runs
    answer = candidate()
    assert answer.code == 0, answer.line
    assert "that rounding put on the other side of a kink" in answer.line
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert all(kink["largest"] <= 8 * kink["noise"] for kink in report["kinks"])
    # Not the other way round: what comes before it in the backward pass has its own tolerance.
    widened = [r["key"]["name"] for r in report["results"] if r.get("rule", "").endswith("_kinks")]
    assert "first.weight" in widened
    assert not any(name.startswith("head") for name in widened)


def test_parts_that_are_merged_without_the_files_accuse_nobody(runs):
    folder, candidate = runs
    assert candidate("run").code == 0
    part, run = folder / "part.json", folder / "run"
    local = ("--part", "1/1", "--local-files", "--json", part)
    run_ttrace("compare", folder / "reference.h5", run, *local)
    merge = ("report", "merge", part)
    assert run_ttrace(*merge).returncode == 0
    (run / "rank_00000.h5").rename(folder / "elsewhere.h5")
    merged = run_ttrace(*merge)
    assert merged.returncode == 3, merged.stdout
    assert "whether rounding explains it lie on other machines" in merged.stdout


def scaled(by, name):
    def plant(model):
        model.get_parameter(name).register_hook(lambda gradient: gradient * by)

    return plant


@pytest.mark.parametrize("name", ["first.weight", "blocks.0.up.weight"])
def test_factor_beyond_the_room_is_found(runs, name):
    answer = runs[1](plant=scaled(2, name))
    assert answer.code == 1
    assert answer.found[0] == f"param_grad {name}"


class OtherSide(torch.autograd.Function):
    """A ReLU that passes no gradient for one element that is far from zero."""

    @staticmethod
    def forward(ctx, x):
        passed = x > 0
        at = x.flatten().argmax()
        passed.view(-1)[at] = False
        ctx.save_for_backward(passed)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (passed,) = ctx.saved_tensors
        return gradient * passed


class WrongKink(nn.Module):
    def forward(self, x):
        return OtherSide.apply(x)


def test_lost_gradient_far_from_zero_is_found(runs):
    answer = runs[1](kink=WrongKink)
    assert answer.code == 1, answer.line
    assert "blocks.1" in answer.found[0]


class Leaky(nn.Module):
    def forward(self, x):
        return nn.functional.leaky_relu(x, 1e-3)


def test_another_kink_is_found(runs):
    answer = runs[1](kink=Leaky)
    assert answer.code == 1, answer.line
