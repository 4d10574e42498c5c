"""Masters that nobody names: found, compared with what the model holds, and a reason to replay."""

from __future__ import annotations

import pytest
import torch
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt

STEPS = 2


def net(dtype):
    torch.manual_seed(1)
    layers = nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 4)
    return nn.Sequential(*layers).to(dtype)


def train(out, fault="", dtype=torch.bfloat16, **options):
    """Loads weights into a model whose masters exist already, and trains it."""
    model = net(dtype)
    parameters = list(model.parameters())
    masters = [p.detach().float().clone().requires_grad_() for p in parameters]
    groups: list = masters
    if options.pop("grouped", False):
        groups = [
            {"params": [one for one in masters if one.dim() > 1], "weight_decay": 0.1},
            {"params": [one for one in masters if one.dim() < 2], "weight_decay": 0.0},
        ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    generator = torch.Generator().manual_seed(7)
    for parameter in parameters:
        with torch.no_grad():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator).to(dtype))
    for master, parameter in zip(masters, parameters, strict=True):
        if fault != "stale" and (fault != "one stale" or parameter.dim() == 2):
            master.data.copy_(parameter)
    specification = out.with_suffix(".json") if options.pop("specify", False) else None
    tracer = tt.trace(model, optimizer, out=out, specification=specification, **options)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        with tracer.step(step):
            x = torch.randn(8, 16, generator=generator).to(dtype)
            tracer.loss(model(x).float().square().mean()).backward()
            if fault == "main_grads first":
                tracer.main_grads()
            for master, parameter in zip(masters, parameters, strict=True):
                master.grad = parameter.grad.float()
                parameter.grad = None
            optimizer.step()
            for master, parameter in zip(masters, parameters, strict=True):
                parameter.data.copy_(master)
            tracer.params_after_step()
    tracer.close()
    return Trace(out)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masters")
    train(folder / "ref.h5", specify=True)
    for seed in (1, 2, 3):
        train(folder / f"noise{seed}.h5", perturb=tt.Perturb(seed))
    return folder


def compared(reference, candidate, *options):
    noise = [reference / f"noise{seed}.h5" for seed in (1, 2, 3)]
    return run_ttrace("compare", reference / "ref.h5", candidate, "--noise", *noise, *options)


@pytest.mark.parametrize("fault", ["", "main_grads first"])
def test_healthy_masters_are_recorded_and_their_updates_replayed(reference, tmp_path, fault):
    trace = train(tmp_path / "run.h5", fault)
    assert trace.entry("optimizer_state", "0.weight.main_param")["dtype"] == "float32"
    names = {name for one in trace.manifest["optimizer"] for name in one["params"]}
    assert names == set(trace.names("param"))
    done = compared(reference, tmp_path / "run.h5")
    assert done.returncode == MATCH, done.stdout
    assert "cannot be replayed" not in done.stdout + done.stderr, done.stdout
    audit = run_ttrace("audit", tmp_path / "run.h5", "--specification", reference / "ref.json")
    assert audit.stdout.startswith("HOLDS"), audit.stdout


@pytest.mark.parametrize(
    "fault, whose", [("stale", "8 optimizer states"), ("one stale", "5 of 8 optimizer states")]
)
def test_stale_masters_are_the_headline(reference, tmp_path, fault, whose):
    train(tmp_path / "run.h5", fault)
    done = compared(reference, tmp_path / "run.h5")
    first = done.stdout.splitlines()[0]
    assert done.returncode == DIVERGED, done.stdout
    assert "allowed to differ by rules" not in first, done.stdout
    assert whose in first and "are not what the model holds before the step" in first, done.stdout
    audit = run_ttrace("audit", tmp_path / "run.h5", "--specification", reference / "ref.json")
    assert audit.returncode == DIVERGED, audit.stdout
    assert "master" in audit.stdout, audit.stdout


def test_masters_of_groups_are_told_apart_by_their_shapes(tmp_path):
    for name, fault in (("ref", ""), ("run", "stale")):
        trace = train(tmp_path / f"{name}.h5", fault, grouped=True, specify=name == "ref")
        masters = [one for one in trace.names("optimizer_state") if one.endswith("main_param")]
        assert len(masters) == len(trace.names("param"))
    done = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run.h5")
    assert "are not what the model holds before the step" in done.stdout.splitlines()[0]


def test_gradients_that_a_job_changes_on_their_way_to_the_masters_are_not_replayed(tmp_path):
    """What was recorded as the main gradient is not what the optimizer consumes."""
    model = net(torch.bfloat16)
    masters = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-3)
    with tt.trace(model, optimizer, out=tmp_path / "told.h5") as tracer, tracer.step(0):
        model(torch.ones(8, 16, dtype=torch.bfloat16)).float().square().mean().backward()
        tracer.main_grads()
        for master, parameter in zip(masters, model.parameters(), strict=True):
            master.grad = parameter.grad.float() / 2
        optimizer.step()
    told = Trace(tmp_path / "told.h5")
    assert all("changed" in one["type"] for one in told.manifest["optimizer"])


def test_copies_in_another_order_are_found_by_their_values(tmp_path):
    model = net(torch.bfloat16)
    parameters = dict(model.named_parameters())
    chosen = ["4.weight", "0.weight", "2.bias"]
    masters = [parameters[n].detach().float().clone().requires_grad_() for n in chosen]
    with torch.no_grad():
        parameters["2.bias"].uniform_()
        masters[2].copy_(parameters["2.bias"])
    optimizer = torch.optim.SGD(masters, lr=0.1, momentum=0.9)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        model(torch.ones(8, 16, dtype=torch.bfloat16)).float().square().mean().backward()
        for name, master in zip(chosen, masters, strict=True):
            master.grad = parameters[name].grad.float()
        optimizer.step()
    trace = Trace(tmp_path / "run.h5")
    assert {n for one in trace.manifest["optimizer"] for n in one["params"]} == set(chosen)


def test_what_cannot_be_compared_ends_no_job(tmp_path):
    """As tensors of two devices cannot: an optimizer may be offloaded."""
    model = net(torch.bfloat16)
    masters = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
    # One too many, so that values decide, and it has none.
    masters.append(nn.Parameter(torch.empty(32, 16, device="meta")))
    optimizer = torch.optim.SGD(masters, lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        model(torch.ones(8, 16, dtype=torch.bfloat16)).float().square().mean().backward()
        tracer.main_grads()
        masters[0].grad = torch.empty(32, 16, device="cpu")
        optimizer.step()
    assert Trace(tmp_path / "run.h5").manifest["optimizer"]


def test_other_tensors_of_an_optimizer_are_no_masters(tmp_path):
    """Temperatures, embeddings of a loss: of another shape, or of a type that is no wider."""
    model = net(torch.float32)
    others = [nn.Parameter(p.detach().clone()) for p in model.parameters()]
    optimizer = torch.optim.SGD([*others, nn.Parameter(torch.ones(()))], lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        model(torch.ones(8, 16)).square().mean().backward()
        optimizer.step()
    assert all(not one["params"] for one in Trace(tmp_path / "run.h5").manifest["optimizer"])
