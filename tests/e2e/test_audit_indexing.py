"""Rows that are ordered, chosen and written by index: audit holds a healthy step in which all of it
is judged, and finds rows at the wrong place."""

import pytest
import torch
from support.audits import audited
from support.ttrace_cli import DIVERGED, MATCH
from torch import nn

import ttrace_torch as tt

WIDTH = 16
TOKENS = 48
EXPERTS = 4


class Sorted(nn.Module):
    """Experts on tokens that are ordered by expert, and put back by an inverse permutation that is
    written into empty memory, as transformers does it."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / 4)
        self.shift = 0

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2)
        experts, order = torch.sort(chosen.reshape(-1))
        rows = x[order // 2]
        weight = self.experts[(experts + self.shift) % EXPERTS]
        done = torch.bmm(rows[:, None], weight)[:, 0] * weights.reshape(-1)[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return done[back].view(*x.shape[:-1], 2, WIDTH).sum(-2)


class Counted(nn.Module):
    """Scores of the chosen columns of each row, by rows that are counted."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.shift = 0

    def forward(self, x):
        scores = self.inner(x)
        best = scores.topk(3, -1)
        rows = torch.arange(x.shape[0])
        kept = torch.zeros_like(scores)
        columns = (best.indices + self.shift) % WIDTH if self.shift else best.indices
        kept[rows[:, None], columns] = best.values
        # One number for all, whichever of several equal indices writes it.
        columns = torch.arange(16).view(1, -1).expand(x.shape[0], -1) // 5
        kept = kept.where(torch.ones(kept.shape, dtype=torch.bool).scatter(-1, columns, False), 0.1)
        first = torch.full_like(scores, 0.5)
        first[rows, best.indices[:, 0]] = best.values[:, 0]
        return kept + first


class InParts(nn.Module):
    """A tensor that is made empty and then written part by part."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, 6), nn.Linear(WIDTH, WIDTH - 6)
        self.shift = 0

    def forward(self, x):
        whole = x.new_empty(x.shape)
        whole[..., 6:] = self.two(x)
        whole[..., :6] = self.one(x).roll(self.shift, -1)
        return whole


class Steps(nn.Module):
    """A state that is written row by row: autograd cuts the gradients by strides."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.shift = 0

    def forward(self, x):
        state = self.inner(x).view(4, -1, WIDTH)
        for row in range(1, 4):
            state = state.clone()
            state[:, row] = state[:, row] + 0.5 * state[:, row - 1 - self.shift]
        return state.view(-1, WIDTH)


class Carried(nn.Module):
    """A state that is written step by step into memory in the order of its transpose."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.shift = 0

    def forward(self, x):
        steps = self.inner(x).view(4, -1, WIDTH).transpose(1, 2)
        states = torch.zeros_like(steps)
        state = torch.zeros_like(steps[:, 0])
        for turn in range(WIDTH):
            state = 0.5 * state + steps[:, turn - self.shift]
            states[:, turn] = state
        return states.transpose(1, 2).reshape(-1, WIDTH)


class Shifted(nn.Module):
    """Scores by distance, whose rows are moved against each other by cutting a row of another
    length, and masked in place: autograd writes their gradient by strides that nothing divides."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.shift = 0

    def forward(self, x):
        scores = self.inner(x)[:8].reshape(2, WIDTH, 4)
        scores = scores[:, 1:].reshape(2, 4, WIDTH - 1)[..., : WIDTH // 2]
        scores *= torch.ones(4, WIDTH // 2).tril(4 + self.shift)
        return torch.cat([scores.reshape(-1, WIDTH), x[4:]])


FORMS = {
    "sorted": Sorted,
    "counted": Counted,
    "in_parts": InParts,
    "steps": Steps,
    "carried": Carried,
    "shifted": Shifted,
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.forms = nn.ModuleDict({name: make() for name, make in FORMS.items()})

    def forward(self, x, target):
        x = self.first(x)
        return sum(((form(x) - target) ** 2).mean() for form in self.forms.values())


def trained(folder, shifted=""):
    torch.manual_seed(2)
    model = Model()
    x, target = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)
    if shifted:
        model.forms[shifted].shift = 1
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if shifted else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.scalar("target", target)
        tracer.loss(model(x, target)).backward()
    tracer.close()


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("healthy")
    trained(folder)
    return folder


def test_a_healthy_step_is_judged_whole(healthy):
    done, report = audited(healthy / "run.h5", healthy / "specification.json")
    assert done.returncode == MATCH, done.stdout
    coverage = report["coverage"]
    assert not coverage["not_judged"], done.stdout
    assert coverage["judged"] == coverage["tensors"], done.stdout


@pytest.mark.parametrize("name", FORMS)
def test_rows_at_the_wrong_place_are_found(healthy, tmp_path, name):
    trained(tmp_path, name)
    done, report = audited(tmp_path / "run.h5", healthy / "specification.json")
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"]["name"] for result in report["results"]}
    assert by_id[report["findings"][0]["members"][0]] == f"forms.{name}"
