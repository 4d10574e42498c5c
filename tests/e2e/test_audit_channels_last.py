"""Norms of images whose channels lie innermost in memory, whose kernel adds up in binary32:
audit holds a healthy step, and finds faults."""

import pytest
import torch
from support.audits import audited
from support.ttrace_cli import DIVERGED, MATCH
from torch import nn

import ttrace_torch as tt

CHANNELS = 12


def grouped(channels):
    return nn.GroupNorm(4, channels)


# Name -> the convolution, the norm, the sizes of space, and the offset of what is normalised.
FORMS = {
    "small": (nn.Conv2d, nn.BatchNorm2d, (9, 7), 0.0),
    "large": (nn.Conv2d, nn.BatchNorm2d, (48, 48), 0.0),
    "shifted": (nn.Conv2d, nn.BatchNorm2d, (32, 32), 3.0),
    "volume": (nn.Conv3d, nn.BatchNorm3d, (8, 12, 10), 0.5),
    "groups": (nn.Conv2d, grouped, (12, 10), 0.5),
    "groups_shifted": (nn.Conv2d, grouped, (40, 40), 5.0),
}
FORMATS = {nn.Conv2d: torch.channels_last, nn.Conv3d: torch.channels_last_3d}


class SideBySide(nn.Module):
    def __init__(self):
        super().__init__()
        self.forms = nn.ModuleDict()
        for name, (convolution, norm, _, offset) in FORMS.items():
            form = nn.Sequential(convolution(3, CHANNELS, 1), norm(CHANNELS))
            nn.init.constant_(form[0].bias, offset)
            self.forms[name] = form.to(memory_format=FORMATS[convolution])

    def forward(self, inputs):
        return sum((form(inputs[name]) ** 3).mean() for name, form in self.forms.items())


def trained(folder, fault=None):
    torch.manual_seed(1)
    model = SideBySide()
    inputs = {
        name: torch.randn(2, 3, *size).to(memory_format=FORMATS[convolution])
        for name, (convolution, _, size, _) in FORMS.items()
    }
    if fault is not None:
        fault(model)
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if fault else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.loss(model(inputs)).backward()
    tracer.close()


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("healthy")
    trained(folder)
    return folder


def test_a_healthy_step_holds(healthy):
    done, report = audited(healthy / "run.h5", healthy / "specification.json")
    assert done.returncode == MATCH, done.stdout
    assert not report["coverage"]["not_judged"], done.stdout
    assert report["sharpness"]["worst_share"] < 0.8, report["sharpness"]


def epsilon(norm):
    norm.eps = 1e-3


def weight_gradient(norm):
    norm.weight.register_hook(lambda gradient: gradient * 1.001)


def bias_gradient(norm):
    norm.bias.register_hook(lambda gradient: gradient.roll(1))


def by_sample(norm):
    forward = norm.forward
    norm.forward = lambda x: torch.cat([forward(one) for one in x.split(1)])


FAULTS = {
    epsilon: ("output", ""),
    weight_gradient: ("param_grad", ".weight"),
    bias_gradient: ("param_grad", ".bias"),
    by_sample: ("output", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_each_is_found(healthy, tmp_path, fault):
    trained(tmp_path, fault=lambda model: [fault(form[1]) for form in model.forms.values()])
    done, report = audited(tmp_path / "run.h5", healthy / "specification.json")
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"] for result in report["results"]}
    keys = [by_id[number] for finding in report["findings"] for number in finding["members"]]
    kind, which = FAULTS[fault]
    found = {key["name"] for key in keys if key["kind"] == kind}
    # A group norm is by sample already.
    names = [n for n in FORMS if fault is not by_sample or not n.startswith("groups")]
    assert {f"forms.{name}.1{which}" for name in names} <= found, done.stdout
