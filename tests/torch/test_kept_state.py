"""State that no optimizer moves: what is recorded of it, and how two runs compare in it."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
import torch.distributed as dist
from process_groups import run_ranks
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from trace_reading import Trace

import ttrace_torch as tt


class Counting(nn.Module):
    """A linear layer that counts how often each of its outputs is the largest."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("load", torch.zeros(width))
        self.register_buffer("bias", torch.zeros(width))
        self.register_buffer("cache", torch.ones(3), persistent=False)

    def forward(self, x):
        scores = self.linear(x)
        with torch.no_grad():
            chosen = (scores + self.bias).argmax(-1)
            gate = torch.zeros_like(scores).scatter(-1, chosen[:, None], 1.0)
            self.load += gate.sum(0)
        return torch.tanh(scores) * gate


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), Counting(8), nn.Linear(8, 2))


def train(out, fault="", steps=2, model=None, **options):
    model = net() if model is None else model
    average = deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    specification = out.with_suffix(".json") if options.pop("specify", False) else None
    tracer = tt.trace(model, optimizer, out=out, specification=specification, **options)
    tracer.state("average", dict(average.named_parameters()) if fault == "names" else average)
    for step in range(steps):
        with tracer.step(step):
            x = torch.randn(16, 6, generator=torch.Generator().manual_seed(step))
            tracer.loss(model(x).square().mean()).backward()
            if fault == "average first":
                follow(average, model)
            optimizer.step()
            optimizer.zero_grad()
            if fault not in ("average first", "average never"):
                follow(average, model)
            counting = model[2]
            times = 2 if fault == "counted twice" else 1
            counting.bias += 0.01 * torch.sign(counting.load.mean() - times * counting.load)
            if fault == "bias drifts":
                counting.bias *= 1.5
            counting.load.zero_()
    tracer.close()
    return Trace(out)


@torch.no_grad()
def follow(average, model):
    for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
        mine.lerp_(theirs, 0.1)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    train(folder / "ref.h5", specify=True)
    for seed in (1, 2, 3):
        train(folder / f"noise{seed}.h5", perturb=tt.Perturb(seed))
    return folder


def compared(reference, candidate):
    noise = [reference / f"noise{seed}.h5" for seed in (1, 2, 3)]
    return run_ttrace("compare", reference / "ref.h5", candidate, "--noise", *noise)


def test_persistent_buffers_and_named_state_are_recorded(reference):
    trace = Trace(reference / "ref.h5")
    before, after = set(trace.names("buffer")), set(trace.names("buffer_after_step"))
    normed = {f"1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    own = normed | {"2.load", "2.bias"}
    averages = {f"average.{name}" for name in own | set(trace.names("param"))}
    assert before == after == own | averages
    assert trace.entry("buffer", "1.num_batches_tracked")["dtype"] == "int64"


def test_a_healthy_run_matches_and_holds(reference, tmp_path):
    train(tmp_path / "run.h5")
    done = compared(reference, tmp_path / "run.h5")
    assert done.returncode == MATCH, done.stdout
    audit = run_ttrace("audit", tmp_path / "run.h5", "--specification", reference / "ref.json")
    assert audit.stdout.startswith("HOLDS"), audit.stdout


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("average first", "average."),
        ("average never", "average."),
        ("bias drifts", "2.bias"),
        ("counted twice", "2.bias"),
    ],
)
def test_state_that_a_run_moves_otherwise_is_the_headline(reference, tmp_path, fault, named):
    train(tmp_path / "run.h5", fault, steps=1)
    done = compared(reference, tmp_path / "run.h5")
    assert done.returncode == DIVERGED, done.stdout
    assert named in done.stdout.splitlines()[0], done.stdout
    audit = run_ttrace("audit", tmp_path / "run.h5", "--specification", reference / "ref.json")
    assert audit.returncode == DIVERGED, audit.stdout
    assert named in audit.stdout.splitlines()[0], audit.stdout


def test_an_averaged_model_of_torch_has_the_names_of_the_model(tmp_path):
    model = net()
    average = AveragedModel(model)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    tracer.state("ema", average)
    with tracer.step(0):
        tracer.loss(model(torch.ones(4, 6)).sum()).backward()
    tracer.close()
    names = set(Trace(tmp_path / "run.h5").names("buffer"))
    assert {"ema.0.weight", "ema.n_averaged"} <= names


class Shadows:
    """An average as diffusers and torch_ema keep it."""

    def __init__(self, parameters):
        self.shadow_params = [one.detach().clone() for one in parameters]


class ShadowEMA(Shadows):
    pass


def beside(out, keep, moves=True, steps=2, mentions=False):
    """Trains a model with what `keep` makes of it beside it, which is moved or not."""
    model = net()
    kept = keep(model)
    tracer = tt.trace(model, torch.optim.SGD(model.parameters(), lr=0.1), out=out, kinds=["state"])
    if mentions:
        tracer.state("mine", kept[0] if isinstance(kept, list) else kept)
    for step in range(steps):
        with tracer.step(step):
            tracer.loss(model(torch.ones(4, 6)).sum()).backward()
            tracer._job.optimizer.step()
            tracer._job.optimizer.zero_grad()
            with torch.no_grad():
                for one in kept if isinstance(kept, list) else [kept]:
                    held = one.shadow_params if isinstance(one, Shadows) else one.parameters()
                    for tensor in held if moves else []:
                        tensor.mul_(0.5)
    tracer.close()
    trace = Trace(out)
    steps_of = {}
    for entry in trace.manifest["tensors"]:
        if entry["kind"].startswith("buffer") and entry["name"].endswith("3.weight"):
            place = entry["kind"], entry["name"]
            steps_of.setdefault(place, []).append(entry.get("step", 0))
    return steps_of


@pytest.mark.parametrize(
    "keep", [AveragedModel, lambda model: ShadowEMA(model.parameters())], ids=["torch", "shadows"]
)
@pytest.mark.parametrize("moves", [True, False])
def test_an_average_is_found_by_its_type(tmp_path, capfd, keep, moves):
    found = beside(tmp_path / "run.h5", keep, moves)
    name = "average.3.weight"
    assert found == {("buffer", name): [0, 1], ("buffer_after_step", name): [0, 1]}
    assert "is recorded as average.*" in capfd.readouterr().err


@pytest.mark.parametrize("most", [0, 2**30])
def test_another_copy_is_recorded_if_a_step_moves_it(tmp_path, monkeypatch, most):
    monkeypatch.setattr("ttrace_torch.copies._MOST_KEPT", most)
    found = beside(tmp_path / "run.h5", deepcopy)
    name = "copy.3.weight"
    before = [0, 1] if most else [1]
    assert found == {("buffer", name): before, ("buffer_after_step", name): [0, 1]}


@pytest.mark.parametrize(
    "keep",
    [
        lambda model: [deepcopy(model), nn.Sequential(deepcopy(model), nn.Linear(2, 2))],
        lambda model: [deepcopy(model).double().half(), nn.Linear(6, 8)],
        lambda model: [ShadowEMA([torch.ones(3)]), Shadows(model.parameters())],
    ],
    ids=["frozen", "parts", "others"],
)
def test_what_does_not_move_or_is_no_copy_is_not_recorded(tmp_path, keep):
    assert beside(tmp_path / "run.h5", keep, moves=False) == {}


def test_an_average_that_is_made_or_given_up_amid_the_run(tmp_path):
    model, averages = net(), []
    tracer = tt.trace(model, out=tmp_path / "run.h5", kinds=["state"])
    for step in range(6):
        if step == 2:
            averages.append(AveragedModel(model))
        if step == 4:
            averages.clear()
        with tracer.step(step):
            model(torch.ones(4, 6)).sum().backward()
            if averages:
                averages[0].update_parameters(model)
    tracer.close()
    found = Trace(tmp_path / "run.h5").manifest["tensors"]
    steps = {one.get("step", 0) for one in found if one["name"].startswith("average.")}
    assert steps == {2, 3}


def test_a_copy_that_is_named_is_recorded_once(tmp_path):
    found = beside(tmp_path / "run.h5", AveragedModel, mentions=True)
    assert {name for _, name in found} == {"mine.3.weight"}


def test_two_averages_are_not_told_apart(tmp_path, capfd):
    found = beside(tmp_path / "run.h5", lambda model: [AveragedModel(model), AveragedModel(model)])
    assert found == {} and "another one is called average" in capfd.readouterr().err
    both = [AveragedModel, AveragedModel]
    found = beside(tmp_path / "b.h5", lambda m: [one(m) for one in both], mentions=True)
    assert {name for _, name in found} == {"mine.3.weight", "average.3.weight"}


def test_what_is_no_tensor_or_name_costs_only_itself(tmp_path, capfd):
    model = nn.Linear(2, 2)
    tracer = tt.trace(model, out=tmp_path / "run.h5", kinds=["state"])
    tracer.state("a/b", model)
    tracer.state("number", 3)
    tracer.state("raises", lambda: {}["missing"])
    tracer.state("good", lambda: {"x": torch.ones(2), "y": 3, "bad/name": torch.ones(1)})
    with tracer.step(0):
        model(torch.ones(1, 2)).sum().backward()
    tracer.close()
    assert Trace(tmp_path / "run.h5").names("buffer") == ["good.x"]
    said = capfd.readouterr().err
    for text in ("not int", "KeyError", "neither '/' nor"):
        assert text in said, said


def test_inactive_tracers_take_state(tmp_path):
    tracer = tt.trace(nn.Linear(2, 2))
    tracer.state("average", nn.Linear(2, 2))
    with tracer.step(0):
        pass
    assert not tracer.active and tracer.incomplete == []


def ddp_of_batch_norm(rank, place, ranks=2):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), Counting(8), nn.Linear(8, 2))
    run = DistributedDataParallel(model) if ranks > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(run, optimizer, out=place) as tracer:
        for step in range(2):
            with tracer.step(step):
                for number in range(rank * 2 // ranks, (rank + 1) * 2 // ranks):
                    generator = torch.Generator().manual_seed(2 * step + number)
                    x = torch.randn(16, 6, generator=generator)
                    (tracer.loss(run(x).square().mean()) / (2 / ranks)).backward()
                optimizer.step()
                optimizer.zero_grad()
                counting = model[2]
                if ranks > 1:
                    dist.all_reduce(counting.load)
                counting.bias += 0.01 * torch.sign(counting.load.mean() - counting.load)
                counting.load.zero_()


def test_statistics_of_a_ranks_own_samples_are_left_out(tmp_path):
    ddp_of_batch_norm(0, tmp_path / "ref.h5", 1)
    run_ranks(2, ddp_of_batch_norm, tmp_path / "run")
    trace = Trace(tmp_path / "run")
    assert {"2.load", "2.bias"} == set(trace.names("buffer_after_step"))
    assert "1.running_mean" in trace.names("buffer")
    left_out = [one["tensors"] for one in trace.manifest["run"]["incomplete"]]
    assert "*/*/buffer_after_step/1.running_var/*/*" in left_out
    done = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")
    assert done.returncode == MATCH, done.stdout
