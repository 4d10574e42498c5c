"""A GPU that rounds the factors of products to TF32: a healthy run of it holds and matches, and a
fault in it is found. The GPU is played by a dispatch mode that rounds what products are given."""

import json

import pytest
import torch
from answers import audited, compared
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import ttrace_torch as tt
from ttrace_torch import traced_steps
from ttrace_torch.base.dtypes import StepPrecision

BOTH = {"matmul": "tf32", "convolution": "tf32"}
_PRODUCTS = {"mm": "matmul", "addmm": "matmul", "bmm": "matmul", "convolution": "convolution"}
_PRODUCTS["convolution_backward"] = "convolution"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 16, 3, stride=2)
        self.hidden = nn.Linear(16 * 49, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        found = self.second(torch.tanh(self.first(images))).flatten(1)
        return self.head(torch.tanh(self.hidden(found)))


def to_tf32(x):
    """The nearest number with ten bits of mantissa."""
    if not isinstance(x, torch.Tensor) or x.dtype is not torch.float32:
        return x
    bits = x.contiguous().view(torch.int32).to(torch.int64)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).to(torch.int32).view(torch.float32)


class Gpu(TorchDispatchMode):
    def __init__(self, narrow):
        super().__init__()
        self.narrow = narrow

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        if _PRODUCTS.get(name) not in self.narrow:
            return func(*args, **kwargs)
        # The first argument of addmm is no factor.
        kept = 1 if name == "addmm" else 0
        found = func(*args[:kept], *[to_tf32(x) for x in args[kept:]], **kwargs)
        if name == "convolution_backward":
            # The gradient of a bias is a sum, and no product.
            found = (*found[:2], func(*args, **kwargs)[2])
        return found


def run_job(path, narrow=(), specification=None, fault=False):
    model = Model()
    if fault:
        model.hidden.weight.register_hook(lambda gradient: gradient * 1.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tracer = tt.trace(model, optimizer, out=path, specification=specification)
    random = torch.Generator().manual_seed(1)
    images, labels = torch.randn(8, 3, 16, 16, generator=random), torch.arange(8)
    gpu = Gpu(set(narrow)) if narrow else torch.enable_grad()
    with tracer.step(0), gpu:
        loss = nn.functional.cross_entropy(model(images), labels)
        tracer.loss(loss, labels=labels).backward()
        optimizer.step()
    tracer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tf32")
    run_job(folder / "reference.h5", specification=folder / "specification.json")
    return folder


@pytest.fixture
def says(monkeypatch):
    """Sets what torch says of its settings."""

    def set_to(narrow):
        monkeypatch.setattr(StepPrecision, "on_gpu", True)
        monkeypatch.setattr(traced_steps, "narrow_products", lambda recurs: dict(narrow))

    return set_to


def manifest_of(folder, run):
    import h5py

    with h5py.File(folder / run) as file:
        return json.loads(file["manifest"][()])


def test_a_run_in_tf32_holds_and_matches(folder, says):
    says(BOTH)
    run_job(folder / "run.h5", BOTH)
    answer = audited(folder)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    assert "with room for TF32, which the run says it multiplied in" in answer.line, answer
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    # The outputs of four layers, and their gradients and those of weights.
    assert report["coverage"]["narrow_factors"] >= 10, report["coverage"]
    answer = compared(folder)
    assert answer.code == 0 and "tf32" in answer.line, answer


def test_without_its_settings_it_is_broken(folder, says):
    says({})
    run_job(folder / "run.h5", BOTH)
    answer = audited(folder)
    assert answer.code == 1 and answer.found[0] == "output first", answer
    assert compared(folder).code == 1


def test_each_setting_excuses_its_own_products(folder, says):
    says({"convolution": "tf32"})
    run_job(folder / "run.h5", BOTH)
    answer = audited(folder)
    assert answer.code == 1 and answer.found[0] == "output hidden", answer
    run_job(folder / "run.h5", {"convolution": "tf32"})
    assert audited(folder).code == 0
    says({"matmul": "tf32"})
    run_job(folder / "run.h5", BOTH)
    answer = audited(folder)
    assert answer.code == 1 and answer.found[0] == "output first", answer


def test_a_fault_in_tf32_is_found(folder, says):
    says(BOTH)
    run_job(folder / "run.h5", BOTH, fault=True)
    answer = audited(folder)
    assert answer.code == 1 and answer.found[0] == "param_grad hidden.weight", answer
    answer = compared(folder)
    assert answer.code == 1 and answer.found[0].endswith("hidden.weight"), answer


class Function(nn.Module):
    def forward(self, x):
        return nn.functional.conv1d(x, torch.ones(8, 8, 1, requires_grad=True))


@pytest.mark.parametrize(
    "model, marked",
    [
        (nn.Linear(8, 8), False),
        (nn.Conv1d(8, 8, 3, groups=8), False),
        (nn.Conv1d(8, 8, 3, groups=2), True),
        (Function(), True),
    ],
)
def test_only_a_job_that_convolves_is_less_sharp(tmp_path, says, model, marked):
    """By default torch takes TF32 for convolutions: that says nothing of a job that has none, or
    convolves each channel alone, as state space models do."""
    says({"convolution": "tf32"})
    tracer = tt.trace(model, out=tmp_path / "run.h5", specification=tmp_path / "specification.json")
    with tracer.step(0):
        loss = model(torch.ones(4, 8, 8)).square().mean()
        tracer.loss(loss).backward()
    tracer.close()
    manifest = manifest_of(tmp_path, "run.h5")
    assert manifest["run"]["products"] == {"convolution": "tf32"}
    assert marked == any(entry.get("computed_in") == "tf32" for entry in manifest["tensors"])
    text = (tmp_path / "specification.json").read_text(encoding="utf-8")
    assert marked == ('"factors":"convolution"' in text.replace(" ", ""))
