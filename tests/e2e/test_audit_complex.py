"""Rotary embeddings by complex numbers, and systems of equations: audit holds a healthy step, each
tensor judged, and finds the same step with another formula."""

import pytest
import torch
from support.audits import audited
from support.ttrace_cli import DIVERGED, MATCH
from torch import nn

import ttrace_torch as tt

SHAPE = (2, 12, 3, 8)  # batch, sequence, heads, width


class Rotary(nn.Module):
    """As Llama 4 and torchtitan turn queries: neighbouring pairs as complex numbers."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(SHAPE[-1], SHAPE[-1])
        self.register_buffer("frequencies", 10.0 ** -torch.arange(0, 1, 2 / SHAPE[-1]))
        self.fault = ""

    def forward(self, x):
        angles = torch.outer(torch.arange(SHAPE[1], dtype=torch.float32), self.frequencies)
        turn = torch.polar(torch.ones_like(angles), angles)[None, :, None]
        if self.fault:
            turn = turn.conj()
        pairs = torch.view_as_complex(self.inner(x).float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turn).flatten(3).type_as(x)


class Reals(nn.Module):
    """Sums, conjugates and scales of complex numbers of real parts."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(SHAPE[-1], SHAPE[-1])
        self.fault = ""

    def forward(self, x):
        one, two = self.inner(x).float().chunk(2, -1)
        number = torch.complex(one, two)
        other = number.conj() * (2.0 if self.fault else 3.0) - number.transpose(1, 2).transpose(
            1, 2
        )
        return torch.view_as_real((-other + number * number).resolve_conj()).flatten(3).type_as(x)


class Polar(nn.Module):
    """Quotients, exponentials, sizes and angles of complex numbers."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(SHAPE[-1], SHAPE[-1])
        self.fault = ""

    def forward(self, x):
        number = torch.view_as_complex(self.inner(x).float().unflatten(-1, (-1, 2)))
        found = (number * (0.5 - 1.5j) / (3 + number.conj())).exp() - 2j * number.sgn()
        return torch.cat([found.abs(), (found.conj() if self.fault else found).angle()], -1)


class Solved(nn.Module):
    """What gated delta nets do within a chunk, in all forms of the operation; and Gaussians."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(SHAPE[-1], SHAPE[-1])
        self.fault = ""

    def forward(self, x):
        rows = self.inner(x).float()
        system = rows.transpose(-1, -2) @ rows / 9 + 2 * torch.eye(SHAPE[-1])
        sides = rows.transpose(-1, -2)
        upper, unit = {"upper": True}, {"upper": False, "unitriangular": True}
        if self.fault:
            upper = {"upper": False}
        found = torch.linalg.solve_triangular(system, sides, **upper)
        found = torch.linalg.solve_triangular(system / 5, found, **unit)
        factor = torch.linalg.cholesky(system)
        found = torch.cholesky_solve(found, factor) + factor.diagonal(0, -2, -1).log()[..., None]
        return torch.linalg.solve_triangular(
            system, found.transpose(-1, -2), upper=False, left=False
        )


FORMS = {"rotary": Rotary, "reals": Reals, "polar": Polar, "solved": Solved}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(SHAPE[-1], SHAPE[-1])
        self.forms = nn.ModuleDict({name: make() for name, make in FORMS.items()})

    def forward(self, x):
        x = self.first(x)
        return sum(form(x).float().square().mean() for form in self.forms.values())


def trained(folder, dtype=torch.float32, faulty=""):
    torch.manual_seed(4)
    model = Model().to(dtype)
    model.forms["rotary"].frequencies.data = model.forms["rotary"].frequencies.float()
    if faulty:
        model.forms[faulty].fault = "another formula"
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if faulty else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.loss(model(torch.randn(SHAPE).to(dtype))).backward()
    tracer.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_healthy_step_is_judged_whole(tmp_path, dtype):
    trained(tmp_path, dtype)
    done, report = audited(tmp_path / "run.h5", tmp_path / "specification.json")
    assert done.returncode == MATCH, done.stdout
    coverage = report["coverage"]
    assert coverage["judged"] == coverage["tensors"] > 6 * len(FORMS), done.stdout


@pytest.fixture(scope="module")
def specification(tmp_path_factory):
    folder = tmp_path_factory.mktemp("healthy")
    trained(folder)
    return folder / "specification.json"


@pytest.mark.parametrize("name", FORMS)
def test_another_formula_is_found(specification, tmp_path, name):
    trained(tmp_path, faulty=name)
    done, report = audited(tmp_path / "run.h5", specification)
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"]["name"] for result in report["results"]}
    assert by_id[report["findings"][0]["members"][0]] == f"forms.{name}"
