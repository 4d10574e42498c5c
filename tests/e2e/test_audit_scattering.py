"""Elements that are put together at an index, bags of the largest, bits of ids: audit holds a
healthy step in which all of it is judged, and finds the neighbour's element and a scaled
gradient."""

import pytest
import torch
import torch.nn.functional as F
from support.audits import audited
from support.ttrace_cli import DIVERGED, MATCH
from torch import nn

import ttrace_torch as tt

WIDTH = 16
ROWS = 24
GROUPS = 5


def groups(shift):
    return (torch.arange(ROWS) + shift) * 7 % 11 % GROUPS


def scattered(reduce, include):
    def put_together(x, shift):
        places = (groups(shift)[:, None] + torch.arange(WIDTH)) % GROUPS
        base = 0.5 * x[:GROUPS]
        return base.scatter_reduce(0, places, x, reduce, include_self=include)

    return put_together


def indexed(reduce, include):
    def put_together(x, shift):
        base = 0.5 * x[:GROUPS]
        return base.index_reduce(0, groups(shift), x, reduce, include_self=include)

    return put_together


def bags(padding):
    """Some rows lie in no bag, others in two; the second bag is empty."""

    def largest(x, shift):
        ids = (torch.arange(40) * 7 + shift) % ROWS
        offsets = torch.tensor([0, 3, 3, 17, 30])
        return F.embedding_bag(ids, x, offsets, mode="max", padding_idx=padding)

    return largest


def bits(x, shift):
    """Hashes of ids, as recommenders make them, choose a row."""
    ids = torch.arange(ROWS) + shift
    hashed = ((ids << 3) ^ (ids >> 1) ^ 0x55) & 0xFF
    kept = (~hashed % 3 != 0) & ((ids > 3) ^ (ids > 20) | (ids == 1))
    return x[(hashed | 16) % ROWS] * kept[:, None]


def filled(x, shift):
    return x.index_fill(0, torch.tensor([1, 3, 3 + shift]), 0.5)


FORMS = {
    **{f"scatter_{r}": scattered(r, True) for r in ("sum", "prod", "mean", "amax", "amin")},
    **{f"scatter_{r}_alone": scattered(r, False) for r in ("sum", "prod", "mean", "amax")},
    "index_prod": indexed("prod", True),
    "index_mean": indexed("mean", False),
    "index_amin": indexed("amin", False),
    "bags": bags(None),
    "bags_with_padding": bags(4),
    "bits": bits,
    "filled": filled,
}
FAULTS = ("scatter_prod", "scatter_amax_alone", "bags_with_padding", "bits")


class Form(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.shift = 0
        self.scale = 1.0

    def forward(self, x):
        x = self.inner(x)
        if self.scale != 1.0:
            x.register_hook(lambda gradient: self.scale * gradient)
        return self.function(x, self.shift)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.forms = nn.ModuleDict({name: Form(function) for name, function in FORMS.items()})

    def forward(self, x):
        x = self.first(x)
        return sum(form(x).float().square().mean() for form in self.forms.values())


def trained(folder, dtype=torch.float32, shifted="", scaled=""):
    torch.manual_seed(2)
    model = Model().to(dtype)
    if shifted:
        model.forms[shifted].shift = 1
    if scaled:
        model.forms[scaled].scale = 1.05
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if shifted or scaled else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.loss(model(torch.randn(ROWS, WIDTH).to(dtype))).backward()
    tracer.close()


@pytest.fixture(scope="module")
def specification(tmp_path_factory):
    folder = tmp_path_factory.mktemp("healthy")
    trained(folder)
    return folder / "specification.json"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_healthy_step_is_judged_whole(specification, tmp_path, dtype):
    folder = specification.parent
    if dtype != torch.float32:
        folder = tmp_path
        trained(folder, dtype)
    done, report = audited(folder / "run.h5", folder / "specification.json")
    assert done.returncode == MATCH, done.stdout
    coverage = report["coverage"]
    assert coverage["judged"] == coverage["tensors"] > 6 * len(FORMS), done.stdout
    assert report["sharpness"]["worst_share"] < 0.8


@pytest.mark.parametrize("name", FAULTS)
def test_the_neighbours_element_is_found(specification, tmp_path, name):
    trained(tmp_path, shifted=name)
    done, report = audited(tmp_path / "run.h5", specification)
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"]["name"] for result in report["results"]}
    assert by_id[report["findings"][0]["members"][0]] == f"forms.{name}"


@pytest.mark.parametrize("name", ["index_prod", "bags"])
def test_a_scaled_gradient_is_found(specification, tmp_path, name):
    trained(tmp_path, scaled=name)
    done, report = audited(tmp_path / "run.h5", specification)
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"] for result in report["results"]}
    names = {by_id[key]["name"].rpartition(".")[0] for key in report["findings"][0]["members"]}
    assert names == {f"forms.{name}.inner"}
