"""Fourier transforms of every kind: audit holds a healthy step in which all of it is judged, and
finds other frequencies and another scale."""

import pytest
import torch
from support.audits import audited
from support.ttrace_cli import DIVERGED, MATCH
from torch import fft, nn

import ttrace_torch as tt

WIDTH = 30
SHAPE = (2, 12, WIDTH)


def real(x):
    return torch.view_as_real(x)


def pairs(x):
    return torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))


def kept(frequencies, norm):
    """As Fourier neural operators: the lowest frequencies are written into zeros."""
    whole = torch.zeros(*SHAPE[:-1], WIDTH // 2 + 1, dtype=torch.complex64)
    whole[..., :5] = frequencies[..., :5] * (1.5 - 0.5j)
    return fft.irfft(whole, n=WIDTH, norm=norm)


FORMS = {
    "mixed": lambda x, norm: fft.fft2(x.float(), norm=norm).real,
    "real": lambda x, norm: real(fft.rfft(x.float(), norm=norm)),
    "padded": lambda x, norm: real(fft.rfft(x.float(), n=49, norm=norm)),
    "all": lambda x, norm: real(fft.fft(pairs(x), dim=1, norm=norm)),
    "inverse": lambda x, norm: real(fft.ifftn(pairs(x), dim=(0, 2), norm=norm)),
    "back": lambda x, norm: fft.irfft2(pairs(x), s=(12, 27), norm=norm),
    "filtered": lambda x, norm: kept(fft.rfft(x.float()), norm),
    "power": lambda x, norm: fft.rfftn(x.float(), norm=norm).abs(),
    "convolved": lambda x, norm: fft.irfft(
        fft.rfft(x.float(), n=64) * fft.rfft(x.float().flip(1), n=64), norm=norm
    ),
}


class Form(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.norm = "backward"

    def forward(self, x):
        return self.function(self.inner(x), self.norm)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.forms = nn.ModuleDict({name: Form(function) for name, function in FORMS.items()})

    def forward(self, x):
        x = self.first(x)
        return sum(form(x).square().mean() for form in self.forms.values())


def trained(folder, dtype=torch.float32, faulty="", offset=0.0):
    torch.manual_seed(6)
    model = Model().to(dtype)
    if faulty:
        model.forms[faulty].norm = "ortho"
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if faulty else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.loss(model((torch.randn(SHAPE) + offset).to(dtype))).backward()
    tracer.close()


@pytest.fixture(scope="module")
def specification(tmp_path_factory):
    folder = tmp_path_factory.mktemp("healthy")
    trained(folder)
    return folder / "specification.json"


# An offset makes the first frequency much larger than the others.
@pytest.mark.parametrize(("dtype", "offset"), [(torch.float32, 30.0), (torch.bfloat16, 0.0)])
def test_a_healthy_step_is_judged_whole(tmp_path, dtype, offset):
    trained(tmp_path, dtype, offset=offset)
    done, report = audited(tmp_path / "run.h5", tmp_path / "specification.json")
    assert done.returncode == MATCH, done.stdout
    coverage = report["coverage"]
    assert coverage["judged"] == coverage["tensors"] > 6 * len(FORMS), done.stdout
    assert report["sharpness"]["worst_share"] < 0.8


@pytest.mark.parametrize("name", ["mixed", "back", "filtered"])
def test_another_scale_is_found(specification, tmp_path, name):
    trained(tmp_path, faulty=name)
    done, report = audited(tmp_path / "run.h5", specification)
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"]["name"] for result in report["results"]}
    assert by_id[report["findings"][0]["members"][0]] == f"forms.{name}"
