"""An activation without a kink excuses no gradient, whatever the signs of its argument; nor does a
ReLU excuse more than its flips can move."""

import json

import pytest
import torch
from answers import compared
from halves import Halves
from torch import nn

import ttrace_torch as tt

SAMPLES, TOKENS, WIDTH, HEADS, BLOCKS, WORDS = 8, 32, 64, 4, 2, 50
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class SquaredReLU(nn.Module):
    def forward(self, x):
        return x.relu().square()


class Sum(nn.Module):
    """What the ReLU is given goes elsewhere as well, so that its gradient does not vanish."""

    def forward(self, x):
        return 0.5 * x + x.relu()


ACTIVATIONS = {
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "none": nn.Identity,
    "relu": nn.ReLU,
    "leaky": nn.LeakyReLU,
    "hardswish": nn.Hardswish,
    "squared": SquaredReLU,
    "sum": Sum,
}


class Times(torch.autograd.Function):
    """Its argument, whose gradient comes back times a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = Halves(WIDTH, 3 * WIDTH)
        self.out = Halves(WIDTH, WIDTH)
        self.scale = 1.0  # of the scores, in the backward pass

    def forward(self, x):
        heads = self.qkv(x).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        scores = Times.apply(heads[0] @ heads[1].transpose(-1, -2), self.scale)
        shares = (scores / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return self.out((shares @ heads[2]).transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2, self.up = nn.LayerNorm(WIDTH), Halves(WIDTH, 4 * WIDTH)
        self.activation, self.down = activation(), Halves(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(activation) for _ in range(BLOCKS))
        for block in self.blocks:
            block.attention.qkv.weight.data *= 2
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def near_zero(model, words):
    """Makes an argument of some columns of each activation zero within rounding."""
    seen = {}
    for block in model.blocks:
        handle = block.up.register_forward_hook(lambda _, inputs, output: seen.update(x=output))
        with torch.no_grad():
            model(words)
            handle.remove()
            rows = seen["x"].flatten(0, 1)
            column = torch.arange(16)
            block.up.bias[:16] -= rows[column * 7, column]


def trained(path, activation, dtype, *, halves=False, seed=None, plant=lambda model: None):
    torch.manual_seed(0)
    model = Model(ACTIVATIONS[activation])
    random = torch.Generator().manual_seed(1)
    words = torch.randint(0, WORDS, (SAMPLES, TOKENS), generator=random)
    near_zero(model, words)
    for module in model.modules():
        if isinstance(module, Halves):
            module.halves = halves
    model = model.to(DTYPES[dtype])
    plant(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    perturb = None if seed is None else tt.Perturb(seed)
    tracer = tt.trace(model, optimizer, out=path, perturb=perturb)
    with tracer.step(0):
        logits = model(words).float().flatten(0, 1)
        tracer.loss(nn.functional.cross_entropy(logits, words.roll(1, 1).flatten())).backward()
        optimizer.step()
    tracer.close()


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """What compares a candidate with a reference and a noise run, each of which is trained once."""
    folders = {}

    def answer(activation, dtype, noise=True, **how):
        folder = folders.get((activation, dtype))
        if folder is None:
            folder = folders[activation, dtype] = tmp_path_factory.mktemp(activation)
            trained(folder / "reference.h5", activation, dtype)
            trained(folder / "noise.h5", activation, dtype, seed=1)
        run = folder / ("faulty.h5" if how else "healthy.h5")
        if how or not run.exists():
            trained(run, activation, dtype, halves=True, **how)
        found = compared(folder, run.name, noise=("noise.h5",) if noise else ())
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return found, report.get("kinks", [])

    return answer


def scaled_attention(by):
    def plant(model):
        for block in model.blocks:
            block.attention.scale = by

    return plant


def scaled_gradient(by):
    def plant(model):
        model.blocks[1].attention.out.weight.register_hook(lambda gradient: gradient * by)

    return plant


LIES = [
    ("bf16", "silu", scaled_attention(1.03)),
    ("bf16", "silu", scaled_attention(1.05)),
    ("bf16", "gelu", scaled_attention(1.03)),
    ("bf16", "none", scaled_attention(1.03)),
    ("bf16", "relu", scaled_attention(1.03)),
    ("bf16", "relu", scaled_gradient(1.05)),
    ("fp32", "silu", scaled_attention(1.01)),
    ("fp32", "relu", scaled_attention(1.03)),
    ("fp32", "relu", scaled_gradient(1.03)),
    ("fp32", "leaky", scaled_gradient(1.01)),
    ("fp32", "sum", scaled_gradient(1.03)),
]


@pytest.mark.parametrize(("dtype", "activation", "plant"), LIES)
def test_wrong_gradient_is_found(answered, dtype, activation, plant):
    answer, _ = answered(activation, dtype, plant=plant)
    assert answer.code == 1, answer.line
    assert "attention" in answer.found[0]


@pytest.mark.parametrize("activation", ["relu", "leaky"])
def test_wrong_gradient_is_found_without_noise_runs(answered, activation):
    answer, _ = answered(activation, "fp32", noise=False, plant=scaled_gradient(1.03))
    assert answer.code == 1, answer.line
    assert answer.found[0] == "param_grad blocks.1.attention.out.weight"


@pytest.mark.parametrize("noise", [True, False], ids=["noise", "none"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_other_order_of_a_sum_accuses_nobody(answered, activation, dtype, noise):
    answer, kinks = answered(activation, dtype, noise=noise)
    assert answer.code == 0, answer.line
    assert not kinks or activation in ("relu", "leaky", "squared", "sum")
