"""Pooling of many forms: audit holds a healthy step, and finds windows at other places."""

import pytest
import torch
import torch.nn.functional as F
from support.audits import audited
from support.ttrace_cli import DIVERGED, MATCH
from torch import nn

import ttrace_torch as tt

SIZE = (3, 4, 11, 10)
FORMS = {
    "mean": lambda x: F.avg_pool2d(x, 2),
    "mean_padded": lambda x: F.avg_pool2d(x, 3, stride=2, padding=1),
    "mean_of_what_is_there": lambda x: F.avg_pool2d(x, 3, 1, padding=1, count_include_pad=False),
    "mean_beyond": lambda x: F.avg_pool2d(x, 3, stride=2, ceil_mode=True),
    "mean_uneven": lambda x: F.avg_pool2d(x, (2, 3), stride=(3, 1), divisor_override=5),
    "mean_of_volumes": lambda x: F.avg_pool3d(x.float(), 2, stride=2),
    "max": lambda x: F.max_pool2d(x, 2),
    "max_padded": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    "max_spaced": lambda x: F.max_pool2d(x, (3, 2), stride=1, dilation=2),
    "max_beyond": lambda x: F.max_pool2d(x, 3, stride=3, ceil_mode=True),
    "max_of_lines": lambda x: F.max_pool1d(x.flatten(2), 3, stride=2, padding=1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_parts": lambda x: F.adaptive_avg_pool2d(x[..., :9, :], (3, 5)),
}


class Pool(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool

    def forward(self, x):
        return self.pool(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.ModuleDict({name: nn.Linear(SIZE[-1], SIZE[-1]) for name in FORMS})
        self.pools = nn.ModuleDict({name: Pool(pool) for name, pool in FORMS.items()})

    def forward(self, x):
        return sum(pool(self.first[n](x)).float().square().mean() for n, pool in self.pools.items())


def trained(folder, dtype=torch.float32, shifted=""):
    torch.manual_seed(3)
    model = Model().to(dtype)
    if shifted:
        pool = FORMS[shifted]
        model.pools[shifted].pool = lambda x: pool(x.roll(1, -2))
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if shifted else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.loss(model(torch.randn(SIZE).to(dtype))).backward()
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


@pytest.mark.parametrize("name", ["mean_padded", "mean_beyond", "max_padded", "max_spaced"])
def test_windows_at_other_places_are_found(specification, tmp_path, name):
    trained(tmp_path, shifted=name)
    done, report = audited(tmp_path / "run.h5", specification)
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"]["name"] for result in report["results"]}
    assert f"pools.{name}" in {by_id[finding["members"][0]] for finding in report["findings"]}
