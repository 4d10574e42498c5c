"""A gate that multiplies is no router: without experts that it chooses from, what is wrong behind
it is found. One that chooses is, and tokens near a tie are no fault."""

import json

import pytest
import torch
from answers import compared
from halves import Halves
from torch import nn

import ttrace_torch as tt

TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 256, 32, 64, 8, 2


class Gated(nn.Module):
    """SwiGLU, whose gate is called so."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, HIDDEN)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class GatedHeads(nn.Module):
    """An output gate for each head, beside modules that are given a mask of integers."""

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = nn.Linear(WIDTH, WIDTH)

        def forward(self, x, mask):
            return self.value(x) * (mask.sum(-1, keepdim=True) > 0)

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 16)
        self.inner = self.Inner()
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        mask = torch.ones(TOKENS, 4, dtype=torch.int64)
        heads = self.inner(x, mask).unflatten(-1, (16, WIDTH // 16))
        return self.down((heads * self.gate(x).sigmoid().unsqueeze(-1)).flatten(-2))


class Recurrent(nn.Module):
    """The update gate of a GRU, in a module called router."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        update = self.router(x).sigmoid()
        return update * x + (1 - update) * self.down(x).tanh()


class Branches(nn.Module):
    """Every branch sees every token; a gate weighs them."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return self.down(sum(b(x) * weights[:, i, None] for i, b in enumerate(self.branches)))


class Dispatched(nn.Module):
    """Mixtral's loop."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))
        self.down = nn.Identity()

    def choose(self, x):
        kept, chosen = self.gate(x).topk(CHOSEN)
        return kept.softmax(-1), chosen

    def forward(self, x):
        weights, chosen = self.choose(x)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return self.down(out)


class Biased(Dispatched):
    """DeepSeek-V3's scores: a sigmoid, and a bias for the choice alone."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.linspace(-0.01, 0.01, EXPERTS))
        self.shared = nn.Linear(WIDTH, WIDTH)

    def choose(self, x):
        scores = self.gate(x).sigmoid()
        chosen = (scores + self.bias).topk(CHOSEN).indices
        return scores.gather(-1, chosen), chosen

    def forward(self, x):
        return super().forward(x) + self.shared(x)


class Fused(nn.Module):
    """The experts are one parameter, and are passed the numbers of those chosen."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH**0.5)

        def forward(self, x, weights, chosen):
            return torch.einsum("tkio,ti,tk->to", self.weight[chosen], x, weights)

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.mixture = self.Experts()
        self.down = nn.Identity()

    def forward(self, x):
        kept, chosen = self.gate(x).topk(CHOSEN)
        return self.down(self.mixture(x, kept.softmax(-1), chosen))


class Model(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.first = Halves(WIDTH, WIDTH)
        self.mlp = layer()
        self.head = nn.Linear(WIDTH, 11)

    def forward(self, x):
        x = self.first(x)
        return self.head(x + self.mlp(x))


def trained(path, layer, *, halves=False, tied=False, plant=lambda model: None, dtype=None):
    torch.manual_seed(0)
    model = Model(layer)
    x = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    if tied:
        tie(model, x)
    model, x = model.to(dtype), x.to(dtype)
    model.first.halves = halves
    plant(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=path)
    with tracer.step(0):
        logits = model(x).float()
        tracer.loss(nn.functional.cross_entropy(logits, torch.arange(TOKENS) % 11)).backward()
        optimizer.step()
    tracer.close()


def tie(model, x):
    """Brings the last score chosen of some tokens as near to the first that is not as another order
    of a sum may move them."""
    gate = model.mlp.gate if hasattr(model.mlp, "gate") else model.mlp.router
    first = model.first
    with torch.no_grad():
        for token in range(0, TOKENS, 8):
            scores = gate(first(x[token]))
            order = scores.argsort(descending=True)
            a, b = order[CHOSEN - 1], order[CHOSEN]
            apart = gate.weight[a] - gate.weight[b]
            gap = (token // 8 % 8 - 3.5) * 1e-7
            moved = (scores[a] - scores[b] - gap) / (apart @ apart) * apart
            x[token] -= torch.linalg.solve(first.weight.double(), moved.double()).float()


def louder(model):
    model.mlp.down.register_forward_hook(lambda module, inputs, output: output * 1.05)


def lost_gradient(model):
    model.mlp.register_full_backward_pre_hook(lambda module, gradients: (gradients[0] * 1.05,))


DENSE = [Gated, GatedHeads, Recurrent, Branches]
CHOOSING = [Dispatched, Biased, Fused]


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    made = {}

    def reference(layer):
        if layer not in made:
            made[layer] = tmp_path_factory.mktemp(layer.__name__)
            trained(made[layer] / "reference.h5", layer, tied=True)
        return made[layer]

    return reference


@pytest.mark.parametrize("plant", [louder, lost_gradient])
@pytest.mark.parametrize("layer", DENSE)
def test_what_is_wrong_behind_a_gate_that_chooses_nothing_is_found(references, layer, plant):
    folder = references(layer)
    trained(folder / "run.h5", layer, tied=True, halves=True, plant=plant)
    answer = compared(folder)
    assert answer.code == 1, answer.line
    assert "mlp" in answer.found[0]
    assert "routing" not in json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("layer", DENSE + CHOOSING)
def test_other_order_of_a_sum_accuses_nobody(references, layer):
    folder = references(layer)
    trained(folder / "run.h5", layer, tied=True, halves=True)
    answer = compared(folder)
    assert answer.code in ((0, 3) if layer in CHOOSING else (0,)), answer.line
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert ("routing" in report) == (layer in (Dispatched, Fused))


@pytest.mark.parametrize("layer", CHOOSING)
def test_a_choice_of_other_experts_is_found(references, layer):
    def negated(model):
        model.mlp.gate.register_forward_hook(lambda module, inputs, output: -output)

    folder = references(layer)
    trained(folder / "run.h5", layer, tied=True, halves=True, plant=negated)
    assert compared(folder).code == 1
