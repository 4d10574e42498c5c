"""Micro-batches of other numbers of samples or tokens: padded batches, the rest of an epoch."""

import json

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

WORDS, WIDTH, HEADS = 11, 8, 2
# Samples and tokens of each micro-batch; the last one has the sizes of the first one.
SIZES = ((2, 5), (3, 5), (3, 7), (2, 5))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(16, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        places = torch.arange(words.shape[1])
        x = self.embedding(words) + self.places(places)
        x = x + self.attention(self.norm(x))
        return self.head(x)


class ScaledBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.05


def run_job(folder, out, *, sizes=SIZES, faulty=None, fault=None, seed=1):
    """faulty: the number of the micro-batch that has the fault."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json" if out == "reference.h5" else None
    tracer = tt.trace(model, optimizer, out=folder / out, specification=path)
    generator = torch.Generator().manual_seed(seed)
    with tracer.step(0):
        for turn, size in enumerate(sizes):
            words = torch.randint(WORDS, size, generator=generator)
            labels = torch.randint(WORDS, size, generator=generator)
            hook = fault(model) if turn == faulty else None
            logits = model(words)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            (tracer.loss(loss, labels=labels) / len(sizes)).backward()
            if hook is not None:
                hook.remove()
        optimizer.step()
    tracer.close()


def wrong_output(model):
    return model.attention.out.register_forward_hook(lambda *given: given[-1] * 1.05)


def next_row(model):
    return model.norm.register_forward_hook(lambda *given: given[-1].roll(1, 1))


def wrong_gradient(model):
    return model.head.register_forward_hook(lambda *given: ScaledBackward.apply(given[-1]))


# The hooks change what the tracer has recorded already, so the next tensor is the first wrong one.
FAULTS = {
    wrong_output: "output attention",
    next_row: "input attention",
    wrong_gradient: "grad_output head",
}


def test_healthy_run_is_judged_whole(tmp_path):
    run_job(tmp_path, "reference.h5")
    run_job(tmp_path, "run.h5")
    assert compared(tmp_path).code == 0
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer


def test_other_data_of_known_sizes_are_judged_whole(tmp_path):
    run_job(tmp_path, "reference.h5")
    run_job(tmp_path, "other.h5", sizes=((3, 7), (2, 5), (3, 7)), seed=2)
    answer = audited(tmp_path, "other.h5")
    # The number of micro-batches, which the loss is divided by, is another one.
    assert answer.found == ["grad_output loss"], answer
    run_job(tmp_path, "other.h5", sizes=((3, 7), (2, 5), (3, 5), (3, 5)), seed=2)
    answer = audited(tmp_path, "other.h5")
    assert answer.code == 0 and answer.judged == answer.tensors, answer


def test_sizes_that_the_specification_has_not_met_are_not_judged_by_a_guess(tmp_path):
    run_job(tmp_path, "reference.h5")
    run_job(tmp_path, "other.h5", sizes=((2, 5), (3, 5), (3, 7), (3, 6)), seed=2)
    answer = audited(tmp_path, "other.h5")
    assert answer.code == 3 and not answer.found and 0 < answer.judged < answer.tensors, answer


@pytest.mark.parametrize("faulty", range(len(SIZES)))
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_one_microbatch_is_found_at_its_module(tmp_path, fault, faulty):
    run_job(tmp_path, "reference.h5")
    run_job(tmp_path, "run.h5", fault=fault, faulty=faulty)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == FAULTS[fault], answer


def test_equal_sizes_need_no_variants(tmp_path):
    run_job(tmp_path, "reference.h5", sizes=((2, 5), (2, 5)))
    assert "variants" not in json.loads((tmp_path / "specification.json").read_text())
    run_job(tmp_path, "reference.h5")
    found = json.loads((tmp_path / "specification.json").read_text())
    assert len(found["variants"]) == len(set(SIZES))


class Experts(nn.Module):
    """Tokens in the order of their experts, cut where the next expert begins."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(WIDTH, 3)
        self.weight = nn.Parameter(torch.randn(3, WIDTH, WIDTH) / WIDTH)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        chosen = self.router(x).argmax(-1)
        order = chosen.argsort(stable=True)
        pieces = x[order].split(chosen.bincount(minlength=3).tolist())
        found = torch.cat([piece @ one for piece, one in zip(pieces, self.weight, strict=True)])
        return self.head(x + found[order.argsort()])


def run_experts(folder, out, sizes, seed=1):
    model = Experts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json" if out == "reference.h5" else None
    tracer = tt.trace(model, optimizer, out=folder / out, specification=path)
    generator = torch.Generator().manual_seed(seed)
    with tracer.step(0):
        for size in sizes:
            x = torch.randn(size, WIDTH, generator=generator)
            (tracer.loss(model(x).square().mean()) / len(sizes)).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("sizes", [(12, 12), (12, 18)])
def test_tokens_of_experts_are_no_formula_for_other_data(tmp_path, sizes):
    run_experts(tmp_path, "reference.h5", sizes)
    found = json.loads((tmp_path / "specification.json").read_text())
    assert "variants" not in found and found["opaque"]["sizes that depend on data"] > 0
    for seed in (1, 2):
        run_experts(tmp_path, "run.h5", sizes, seed)
        answer = audited(tmp_path)
        assert not answer.found and answer.judged > 0, answer
