"""Numbers of the script that no type of the run holds: limits, fillings, comparisons, factors."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt
from ttrace_torch.specification.rounding import factor_in, limit_in

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LIMIT = 0.7


class Scaled(nn.Module):
    def forward(self, x):
        return x * 1.1


class Limited(nn.Module):
    """way: what is done at the limit."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.limit = LIMIT

    def forward(self, x):
        if self.way == "clamp":
            return (x * 2).clamp(-self.limit, self.limit)
        if self.way == "fill":
            return (x * 2).masked_fill(x > 0.1, self.limit)
        if self.way == "where":
            return torch.where(x > 0.1, x * 0.3, self.limit)
        # Of 16 bits, every element that is compared is the limit or is not.
        return x * (x.clamp(max=self.limit) < self.limit)


class Model(nn.Module):
    def __init__(self, way):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(8, 64)
        self.scaled = Scaled()
        self.limited = Limited(way)
        self.down = nn.Linear(64, 4)

    def forward(self, x):
        return self.down(self.limited(self.scaled(self.up(x)))).float().square().mean()


def run_job(folder, way, dtype, limit=LIMIT, specification=None):
    model = Model(way).to(dtype)
    model.limited.limit = limit
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    with tracer.step(0):
        tracer.loss(model(x)).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["clamp", "fill", "where", "compare"])
def test_healthy_run_holds_and_another_limit_is_found(tmp_path, way, dtype):
    run_job(tmp_path, way, DTYPES[dtype], specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    run_job(tmp_path, way, DTYPES[dtype], limit=LIMIT * 1.05)
    answer = audited(tmp_path)
    # Its output, or the gradient behind it.
    assert answer.code == 1 and answer.found[0].endswith(("limited", "scaled")), answer


@pytest.mark.parametrize("value", [0.7, 1 / 3, 1.1, 1e-3, -1e30, 0.0, 65504.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_rounded_as_torch_rounds_them(value, dtype):
    kind = DTYPES[dtype]
    if abs(value) <= torch.finfo(kind).max:
        assert limit_in(value, str(kind)[6:]) == torch.full((), value, dtype=kind).item()
    # In a product of 16 bits, torch has the factor in float32.
    wide = torch.tensor(value, dtype=torch.float32).item()
    assert factor_in(value, str(kind)[6:]) == wide
    assert factor_in(value, "float64") == value
