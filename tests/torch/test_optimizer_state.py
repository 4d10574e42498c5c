"""The optimizer's update, replayed from the trace alone: state, gradients and hyperparameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from complaints import complains
from fake_ranks import playing
from process_groups import run_ranks
from small_models import TiedGPT, batch, cross_entropy, seeded
from support.ttrace_cli import MATCH, run_ttrace
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from trace_reading import Trace

import ttrace_torch as tt


def replayed(trace, name, step, group):
    """The parameter after the step in binary64, as PyTorch's documentation defines the update."""

    def state(which, default=None):
        key = ("optimizer_state", f"{name}.{which}", step, None, 0)
        return trace.value(*key[:3]) if key in trace.entries else default

    old = state("main_param", trace.value("param", name, step))
    gradient = trace.value("main_grad", name, step)
    sign, decay, rate = (-1 if group["maximize"] else 1), group["weight_decay"], group["lr"]
    gradient = sign * gradient
    if group["type"] == "sgd":
        gradient = gradient + decay * old
        if group["momentum"]:
            before = state("momentum_buffer")
            buffer = gradient
            if before is not None:
                buffer = group["momentum"] * before + (1 - group["dampening"]) * gradient
            gradient = gradient + group["momentum"] * buffer if group["nesterov"] else buffer
        return old - rate * gradient
    if group["type"] == "adamw":
        old = old * (1 - rate * decay)
    else:
        assert group["type"] == "adam"
        gradient = gradient + decay * old
    zero = np.zeros_like(old)
    first, second = group["betas"]
    mean = first * state("exp_avg", zero) + (1 - first) * gradient
    square = second * state("exp_avg_sq", zero) + (1 - second) * gradient**2
    largest = square
    if group["amsgrad"]:
        largest = np.maximum(state("max_exp_avg_sq", zero), square)
    count = group["updates"]
    root = np.sqrt(largest) / np.sqrt(1 - second**count)
    return old - rate / (1 - first**count) * mean / (root + group["eps"])


def run(path, make, steps=3, model=None, freeze=None):
    """Steps 1 and following are traced, so the state of step 1 is that of an update before."""
    model = seeded(TiedGPT) if model is None else model
    optimizer = make(model)
    with tt.trace(model, optimizer, out=path) as tracer:
        for step in range(steps):
            with tracer.step(step):
                ids, targets = batch(seed=step)
                tracer.loss(cross_entropy(model(ids), targets)).backward()
                if step == freeze:
                    model.norm.weight.grad = None
                optimizer.step()
                optimizer.zero_grad()
    trace = Trace(path)
    trace.check_complete()
    return trace


def two_groups(model, make, **options):
    names = [name for name, _ in model.named_parameters()]
    cut = len(names) // 2
    parameters = list(model.parameters())
    first, second = parameters[:cut], parameters[cut:]
    groups = [{"params": first}, {"params": second, "lr": 0.003, "weight_decay": 0.0}]
    return make(groups, **options)


MOMENTUM = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.02}
ADAM = {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.95)}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "momentum": (torch.optim.SGD, {**MOMENTUM, "dampening": 0.3}),
    "nesterov": (torch.optim.SGD, {**MOMENTUM, "nesterov": True}),
    "maximised": (torch.optim.SGD, {**MOMENTUM, "maximize": True}),
    "adam": (torch.optim.Adam, ADAM),
    "adam, maximised": (torch.optim.Adam, {**ADAM, "maximize": True}),
    "amsgrad": (torch.optim.Adam, {**ADAM, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, ADAM),
    "adamw, amsgrad": (torch.optim.AdamW, {**ADAM, "amsgrad": True, "eps": 1e-3}),
    "adamw, rate in a tensor": (torch.optim.AdamW, {**ADAM, "lr": torch.tensor(0.01)}),
}


def check_replay(trace, steps):
    checked = 0
    for step in steps:
        for group in trace.manifest["optimizer"]:
            for name in group["params"] if group["step"] == step else ():
                if ("main_grad", name, step, None, 0) not in trace.entries:
                    continue
                expected = replayed(trace, name, step, group)
                found = trace.value("param_after_step", name, step)
                # A sum and a few products in binary32.
                scale = np.abs(expected).max()
                update = np.abs(expected - trace.value("param", name, step)).max()
                np.testing.assert_allclose(
                    found, expected, rtol=0, atol=2**-23 * scale + 1e-5 * update
                )
                checked += 1
    return checked


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_follows_from_the_trace(tmp_path, name):
    make, options = OPTIMIZERS[name]
    trace = run(tmp_path / "run.h5", lambda model: two_groups(model, make, **options))
    parameters = len(trace.names("param"))
    assert check_replay(trace, range(3)) == 3 * parameters
    states = {key[1].rpartition(".")[2] for key in trace.entries if key[0] == "optimizer_state"}
    expected = {"exp_avg", "exp_avg_sq"} if "adam" in name or name == "amsgrad" else set()
    expected |= {"max_exp_avg_sq"} if "amsgrad" in name else set()
    expected |= {"momentum_buffer"} if name in ("momentum", "nesterov", "maximised") else set()
    assert states == expected
    # The first update begins with no state.
    found = [key for key in trace.entries if key[0] == "optimizer_state"]
    assert len(found) == 2 * parameters * len(expected)
    assert all(key[2] > 0 for key in found)


def test_parameters_that_missed_an_update_have_a_count_of_their_own(tmp_path):
    trace = run(
        tmp_path / "run.h5",
        lambda model: torch.optim.Adam(model.parameters(), lr=0.01),
        freeze=0,
    )
    late = [e for e in trace.manifest["optimizer"] if e["params"] == ["norm.weight"]]
    assert [(e["step"], e["updates"]) for e in late] == [(1, 1), (2, 2)]
    assert check_replay(trace, range(3)) == 3 * len(trace.names("param")) - 1


def test_the_wider_copy_that_is_updated_is_recorded(tmp_path):
    model = seeded(lambda: nn.Linear(4, 3)).to(torch.bfloat16)
    copies = []
    for parameter in model.parameters():
        parameter.main_param = parameter.detach().clone().float()
        copies.append(parameter.main_param)
    optimizer = torch.optim.AdamW(copies, lr=0.01)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
        for step in range(2):
            with tracer.step(step):
                model(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
                for parameter in model.parameters():
                    parameter.main_param.grad = parameter.grad.float()
                optimizer.step()
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.copy_(parameter.main_param)
                        parameter.grad = None
    trace = Trace(tmp_path / "run.h5")
    assert trace.entry("optimizer_state", "weight.main_param")["dtype"] == "float32"
    assert trace.entry("optimizer_state", "bias.main_param", step=1)["dtype"] == "float32"
    group = trace.manifest["optimizer"][1]
    for name in ("weight", "bias"):
        expected = torch.from_numpy(replayed(trace, name, 1, group)).bfloat16().double()
        found = trace.value("param_after_step", name, step=1)
        np.testing.assert_array_equal(found, expected)


def test_state_that_is_no_tensor_of_the_parameter_s_shape(tmp_path):
    """Factored moments are whole where the parameter is; averages and counts are numbers."""
    trace = run(
        tmp_path / "run.h5",
        lambda model: torch.optim.Adafactor(model.parameters(), lr=0.01),
        steps=2,
    )
    assert trace.entry("optimizer_state", "layers.0.attn.weight.row_var", step=1)["shape"] == [8, 1]
    assert not [name for name in trace.names("optimizer_state") if name.endswith(".step")]


def test_the_state_of_a_cut_parameter_is_cut_as_its_gradient(tmp_path):
    for rank in range(2):
        with playing(rank, 2):
            mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
            model = parallelize_module(seeded(lambda: nn.Linear(4, 6)), mesh, ColwiseParallel())
            with torch.no_grad():
                # A process group that is only played scatters nothing: the memory is as it was.
                for parameter in model.parameters():
                    parameter.to_local().uniform_(-1, 1)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
            options = {"out": tmp_path / "run", "mesh": tt.Mesh({"tp": 2}), "rank": rank}
            with tt.trace(model, optimizer, **options) as tracer:
                for step in range(2):
                    with tracer.step(step):
                        model(torch.ones(2, 4)).sum().backward()
                        optimizer.step()
    trace = Trace(tmp_path / "run")
    trace.check_complete()
    for name, shape in (("weight", [6, 4]), ("bias", [6])):
        for state in ("exp_avg", "exp_avg_sq"):
            entry = trace.entry("optimizer_state", f"{name}.{state}", step=1)
            assert entry["placements"] == {"tp": {"shard": 0}} and entry["shape"] == shape
    assert check_replay(trace, range(2)) == 4


def test_a_rank_whose_range_is_empty_says_so(tmp_path):
    """As with Megatron's distributed optimizer: each rank updates a range of the flat parameter."""
    ranges = {"weight": [(0, 4), (4, 6)], "bias": [(0, 2), (2, 2)]}
    shapes = {"weight": (2, 3), "bias": (2,)}
    flat = {name: {"dp": tt.Flat(ranges[name], shapes[name])} for name in ranges}
    layouts = [tt.Layout("*", main_grads=flat)]
    for rank in range(2):
        model = seeded(lambda: nn.Linear(3, 2))
        shards = []
        for name, parameter in model.named_parameters():
            start, stop = ranges[name][rank]
            if start < stop:
                parameter.main_param = parameter.detach().flatten()[start:stop].double()
                parameter.main_param.grad = torch.ones_like(parameter.main_param)
                shards.append(parameter.main_param)
        optimizer = torch.optim.AdamW(shards, lr=0.1)
        options = {"out": tmp_path / "run", "mesh": tt.Mesh({"dp": 2}), "rank": rank}
        with tt.trace(model, optimizer, layouts=layouts, **options) as tracer:
            for step in range(2):
                with tracer.step(step):
                    optimizer.step()
    trace = Trace(tmp_path / "run")
    trace.check_complete()
    for name, shape in shapes.items():
        for state in ("main_param", "exp_avg"):
            value = trace.value("optimizer_state", f"{name}.{state}", step=1)
            assert value.shape == shape
        np.testing.assert_allclose(value, 0.1)


def test_state_of_a_range_that_no_layout_gives_is_left_out(tmp_path):
    # An optimizer of one's own that keeps a range, beside a whole main gradient.
    model = nn.Linear(4, 3, bias=False).to(torch.bfloat16)
    weight = model.weight
    weight.main_param = nn.Parameter(weight.detach().float().reshape(-1)[:6].clone())
    optimizer = torch.optim.SGD([weight.main_param], lr=0.1)
    tracer = tt.trace(model, optimizer, out=tmp_path / "run.h5")
    with complains(tracer, "has 6 of the 12 elements .* no layout says which"):
        with tracer.step(0):
            tracer.loss(model(torch.ones(1, 4, dtype=torch.bfloat16)).sum()).backward()
            weight.main_param.grad = weight.grad.float().reshape(-1)[:6]
            optimizer.step()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    assert not [key for key in trace.entries if key[0] == "optimizer_state"]
    assert ("param_after_step", "weight", 0, None, 0) in trace.entries


@pytest.mark.parametrize("lost", [False, True])
def test_moments_that_a_resume_has_lost_are_told_by_an_audit_alone(tmp_path, lost):
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    tracer = tt.trace(model, optimizer, out=tmp_path / "run.h5", steps=[3])
    for step in range(4):
        if lost and step == 3:
            for state in optimizer.state.values():
                state["exp_avg"].zero_()
                state["exp_avg_sq"].zero_()
        with tracer.step(step):
            model(torch.ones(2, 4)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()
    audit = run_ttrace("audit", tmp_path / "run.h5")
    said = (
        "all 8 moments are zero at update 4: the optimizer's state was not loaded" in audit.stdout
    )
    assert said == lost and (audit.returncode == 1) == lost, audit.stdout


class LocalStates(torch.optim.SGD):
    """Keeps plain states of the rank's own part, as a hand-written optimizer does: a momentum, and
    the mean square of every row and column, which a column shares with all ranks."""

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                part = parameter.grad
                local = part.to_local() if hasattr(part, "to_local") else part
                state = self.state[parameter]
                if parameter.dim() == 2:
                    whole = part.full_tensor() if hasattr(part, "full_tensor") else part
                    state["square_row"] = local.square().mean(1)
                    state["square_col"] = whole.square().mean(0)
                    state["kept"] = local.square().mean(1, keepdim=True)
                    state["whole_row"] = whole.square().mean(1)
                state["moment"] = state.get("moment", torch.zeros_like(local)).lerp(local, 0.5)
                own = parameter.to_local() if hasattr(parameter, "to_local") else parameter
                own.data.add_(state["moment"], alpha=-0.1)


def local_states(rank, place, ranks=2):
    model = seeded(lambda: nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 10)))
    if ranks > 1:
        fully_shard(model)
    optimizer = LocalStates(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=place) as tracer:
        for step in range(2):
            with tracer.step(step):
                for number in range(rank * 2 // ranks, (rank + 1) * 2 // ranks):
                    generator = torch.Generator().manual_seed(2 * step + number)
                    x = torch.randn(8, 5, generator=generator)
                    (tracer.loss(model(x).square().mean()) / (2 / ranks)).backward()
                optimizer.step()
                optimizer.zero_grad()


def test_plain_states_of_a_sharded_parameter_lie_as_its_part(tmp_path):
    local_states(0, tmp_path / "ref.h5", 1)
    run_ranks(2, local_states, tmp_path / "run")
    trace = Trace(tmp_path / "run")
    placed = {
        entry["name"]: entry.get("placements", {})
        for entry in trace.manifest["tensors"]
        if entry["kind"] == "optimizer_state"
    }
    whole = [name for name in placed if name.endswith(("col", "whole_row"))]
    (cut,) = {str(placed[name]) for name in placed if name not in whole}
    assert "shard" in cut and "2.weight.square_row" in placed and "2.weight.kept" in placed
    assert len(whole) == 4 and all(placed[name] == {} for name in whole)
    done = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")
    assert done.returncode == MATCH and "by the candidate" not in done.stdout, done.stdout
