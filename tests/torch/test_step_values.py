"""What belongs to the step: optimizer entries, norms, scalars, precision, noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from complaints import complains
from small_models import WIDTH, TiedGPT, batch, cross_entropy, seeded, train_step
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt


def optimizer_entries(tmp_path, make, steps=1):
    model = seeded(TiedGPT)
    optimizer = make(model)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
        for step in range(steps):
            train_step(model, tracer, optimizer, step=step)
    return Trace(tmp_path / "run.h5").manifest["optimizer"]


def test_sgd_as_applied(tmp_path):
    (entry,) = optimizer_entries(
        tmp_path,
        lambda model: torch.optim.SGD(
            model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
        ),
    )
    params = entry.pop("params")
    assert params == [name for name, _ in TiedGPT().named_parameters()]
    assert entry == {
        "step": 0,
        "type": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "dampening": 0.0,
        "nesterov": True,
        "maximize": False,
        "weight_decay": 0.01,
        "updates": 1,
    }


def test_adamw_groups_and_a_learning_rate_that_moves(tmp_path):
    model = seeded(TiedGPT)
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay}, {"params": rest, "weight_decay": 0.0, "lr": torch.tensor(0.25)}],
        lr=0.5,
        betas=(0.8, 0.9),
        foreach=False,
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
        for step in range(2):
            train_step(model, tracer, optimizer, step=step)
            schedule.step()
    entries = Trace(tmp_path / "run.h5").manifest["optimizer"]
    assert [(e["step"], e["lr"], e["weight_decay"], e["updates"]) for e in entries] == [
        (0, 0.5, 0.01, 1),
        (0, 0.25, 0.0, 1),
        (1, 0.25, 0.01, 2),
        (1, 0.125, 0.0, 2),
    ]
    assert entries[0]["type"] == "adamw" and entries[0]["betas"] == [0.8, 0.9]
    assert entries[0]["params"][:2] == ["embedding.weight", "layers.0.attn.weight"]
    assert entries[1]["params"][0] == "layers.0.norm1.weight"


def test_updates_before_a_restart_count(tmp_path):
    model = seeded(TiedGPT)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
    resumed = torch.optim.Adam(model.parameters())
    resumed.load_state_dict(optimizer.state_dict())
    with tt.trace(model, resumed, out=tmp_path / "run.h5") as tracer:
        train_step(model, tracer, resumed)
    assert Trace(tmp_path / "run.h5").manifest["optimizer"][0]["updates"] == 4


def test_parameters_after_the_step_only_where_there_was_one(tmp_path):
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
        train_step(model, tracer, step=0)
        train_step(model, tracer, optimizer, step=1)
    trace = Trace(tmp_path / "run.h5")
    assert {e["step"] for e in trace.entries.values() if e["kind"] == "param_after_step"} == {1}
    before = trace.value("param", "norm.weight", step=1)
    gradient = trace.value("main_grad", "norm.weight", step=1)
    after = trace.value("param_after_step", "norm.weight", step=1)
    np.testing.assert_allclose(after, before - 0.1 * gradient, rtol=1e-6)


def test_an_optimizer_of_wider_copies_is_told_by_the_parameters_names(tmp_path):
    model = seeded(TiedGPT)
    for parameter in model.parameters():
        parameter.main_param = parameter.detach().double()
        parameter.main_param.grad = torch.zeros_like(parameter.main_param)
    optimizer = torch.optim.SGD([p.main_param for p in model.parameters()], lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        optimizer.step()
    (entry,) = Trace(tmp_path / "run.h5").manifest["optimizer"]
    assert entry["params"] == [name for name, _ in TiedGPT().named_parameters()]


def test_of_two_optimizer_steps_in_one_traced_step_the_update_is_left_out(tmp_path):
    model = seeded(lambda: nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=tmp_path / "run.h5")
    with complains(tracer, "second step"), tracer.step(0):
        model(torch.ones(1, WIDTH)).sum().backward()
        optimizer.step()
        optimizer.step()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    assert trace.names("main_grad") and not trace.names("param_after_step")


def test_an_optimizer_without_hooks_is_refused(tmp_path):
    with pytest.raises(tt.TraceError, match="main_grads"):
        tt.trace(nn.Linear(2, 2), optimizer=object(), out=tmp_path / "run.h5")


def test_norms_and_scalars(tmp_path):
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        with tracer.microbatch(3):
            loss = cross_entropy(model(batch()[0]), batch()[1])
            assert tracer.loss(loss) is loss
            loss.backward()
            tracer.scalar("tokens", 10)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        tracer.grad_norm(norm.item(), clip_norm=0.25)
        tracer.grad_norm(norm, clip_norm=float("inf"))
        tracer.scalar("temperature", torch.tensor(0.5, dtype=torch.bfloat16))
        tracer.scalar("temperature", True)
        optimizer.step()
    trace = Trace(tmp_path / "run.h5")
    assert trace.value("loss", "loss", microbatch=3) == loss.item()
    assert trace.value("grad_norm", "grad_norm") == norm.item()
    entry = trace.entry("grad_norm", "grad_norm")
    assert (entry["dtype"], entry["computed_in"], entry["shape"]) == ("float64", "float32", [])
    assert trace.value("scalar", "tokens", microbatch=3) == 10
    assert trace.entry("scalar", "temperature")["dtype"] == "bfloat16"
    assert trace.entry("scalar", "temperature", call=1)["dtype"] == "bool"
    assert trace.manifest["optimizer"][0]["clip_norm"] == 0.25
    tracer = tt.trace(model, out=tmp_path / "other.h5")
    with complains(tracer, "a/b.*neither '/' nor"), tracer.step(0):
        tracer.scalar("a/b", 1.0)


def test_a_bf16_model_says_where_it_stores_more_than_it_computes(tmp_path):
    model = seeded(TiedGPT).to(torch.bfloat16)
    for p in model.parameters():
        p.main_grad = torch.zeros_like(p, dtype=torch.float32)
    with tt.trace(model, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        ids, targets = batch()
        tracer.loss(cross_entropy(model(ids).float(), targets)).backward()
        for p in model.parameters():
            p.main_grad += p.grad
        tracer.main_grads()
        tracer.grad_norm(1.0)
        tracer.scalar("count", 1)
        tracer.params_after_step()
    trace = Trace(tmp_path / "run.h5")
    marked = {(e["kind"], e.get("computed_in")) for e in trace.entries.values()}
    assert marked == {
        ("param", None),
        ("input", None),
        ("output", None),
        ("loss", "bfloat16"),
        ("grad_output", None),
        ("param_grad", None),
        ("main_grad", "bfloat16"),
        ("grad_norm", "bfloat16"),
        ("scalar", None),
        ("param_after_step", None),
    }
    assert trace.entry("param", "norm.weight")["dtype"] == "bfloat16"


def test_autocast_marks_what_is_stored_wider(tmp_path):
    class Upcast(nn.Module):
        def forward(self, x):
            return x.float()

    model = seeded(lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), Upcast()))
    x = torch.randn(2, WIDTH)
    with tt.trace(model, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        with torch.autocast("cpu", torch.bfloat16):
            output = model(x)
        output.square().sum().backward()
        tracer.main_grads()
    trace = Trace(tmp_path / "run.h5")

    def facts(kind, name, **where):
        entry = trace.entry(kind, name, **where)
        return entry["dtype"], entry.get("computed_in")

    assert facts("output", "0", microbatch=0) == ("bfloat16", None)
    assert facts("output", "1", microbatch=0) == ("float32", "bfloat16")
    assert facts("input", "(model)", microbatch=0) == ("float32", None)
    assert facts("input", "0", microbatch=0) == ("float32", "bfloat16")
    assert facts("param", "0.weight") == ("float32", None)
    assert facts("main_grad", "0.weight") == ("float32", "bfloat16")


def noise_run(tmp_path, seed=1, epsilon=None, dtype=torch.float32, microbatches=1, steps=1):
    model = seeded(TiedGPT).to(dtype)
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.h5"
    perturb = tt.Perturb(seed, epsilon) if seed is not None else None
    with tt.trace(model, out=path, perturb=perturb) as tracer:
        for step in range(steps):
            train_step(model, tracer, step=step, microbatches=microbatches)
    return Trace(path)


@pytest.mark.parametrize(
    "dtype, epsilon",
    [
        (torch.float64, 2.0**-52),
        (torch.float32, 2.0**-23),
        (torch.float16, 2.0**-10),
        (torch.bfloat16, 2.0**-7),
    ],
    ids=str,
)
def test_noise_is_one_rounding_of_the_first_activation(tmp_path, dtype, epsilon):
    clean = noise_run(tmp_path, seed=None, dtype=dtype)
    noisy = noise_run(tmp_path, dtype=dtype)
    assert noisy.manifest["run"]["noise"] == {"seed": 1, "epsilon": epsilon, "at": "embedding"}
    assert "noise" not in clean.manifest["run"]
    where = {"microbatch": 0}
    before = clean.value("output", "embedding", **where)
    after = noisy.value("output", "embedding", **where)
    assert np.mean(after != before) > 0
    # Rounded once more to the dtype, by at most half an epsilon.
    assert np.abs(after / before - 1).max() <= 1.5 * epsilon
    # What was recorded is what flowed on.
    np.testing.assert_array_equal(noisy.value("input", "layers.0", **where), after)
    loss = noisy.value("loss", "loss", **where), clean.value("loss", "loss", **where)
    np.testing.assert_allclose(*loss, rtol=50 * epsilon)
    gradients = [t.value("param_grad", "embedding.weight", **where) for t in (noisy, clean)]
    assert np.linalg.norm(gradients[0] - gradients[1]) < 100 * epsilon * np.linalg.norm(
        gradients[1]
    )
    assert (gradients[0] != gradients[1]).any()


def test_noise_has_the_size_it_was_given_and_is_uniform(tmp_path):
    clean = noise_run(tmp_path, seed=None)
    noisy = noise_run(tmp_path, epsilon=0.01)
    before = clean.value("output", "embedding", microbatch=0)
    ratio = noisy.value("output", "embedding", microbatch=0) / before - 1
    assert 0.009 < np.abs(ratio).max() <= 0.01 * (1 + 1e-4)
    assert abs(ratio.mean()) < 0.003 and 0.004 < ratio.std() < 0.0075
    # Nothing but the first module is perturbed: the next one follows from what it received.
    model = seeded(TiedGPT)
    received = torch.from_numpy(noisy.value("input", "layers.0.norm1", microbatch=0)).float()
    np.testing.assert_array_equal(
        noisy.value("output", "layers.0.norm1", microbatch=0),
        model.layers[0].norm1(received).detach(),
    )


def test_noise_differs_by_seed_step_and_microbatch_and_repeats_otherwise(tmp_path):
    clean = noise_run(tmp_path, seed=None, microbatches=2, steps=2)

    def factors(trace):
        return {
            (step, number): trace.value("output", "embedding", step=step, microbatch=number)
            / clean.value("output", "embedding", step=step, microbatch=number)
            for step in range(2)
            for number in range(2)
        }

    one = factors(noise_run(tmp_path, seed=1, epsilon=0.01, microbatches=2, steps=2))
    again = factors(noise_run(tmp_path, seed=1, epsilon=0.01, microbatches=2, steps=2))
    other = factors(noise_run(tmp_path, seed=2, epsilon=0.01, microbatches=2, steps=2))
    for key in one:
        assert np.abs(one[key] - 1).max() > 0.005
        np.testing.assert_array_equal(one[key], again[key])
        assert np.abs(one[key] - other[key]).max() > 0.005
    assert np.abs(one[0, 0] - one[0, 1]).max() > 0.005
    assert np.abs(one[0, 0] - one[1, 0]).max() > 0.005


def test_noise_goes_into_the_first_tensor_of_a_structure_once(tmp_path):
    class First(nn.Module):
        def forward(self, x):
            return {"ids": x.long(), "pair": (x, x)}

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = First()

        def forward(self, x):
            return self.first(x)["pair"], self.first(x)["pair"]

    model = Model()
    with tt.trace(model, out=tmp_path / "run.h5", perturb=tt.Perturb(3, 0.5)) as tracer:
        with tracer.step(0):
            ((a, b), (c, d)) = model(torch.ones(16))
    assert (a != 1).all() and (b == 1).all() and (c == 1).all() and (d == 1).all()
    trace = Trace(tmp_path / "run.h5")
    np.testing.assert_array_equal(trace.value("output", "first[pair][0]", microbatch=0), a)
    np.testing.assert_array_equal(trace.value("output", "first[pair][1]", microbatch=0), b)


def test_noise_does_not_depend_on_what_is_recorded(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(
        model, out=tmp_path / "part.h5", perturb=tt.Perturb(1), modules=["norm"], kinds=["input"]
    )
    train_step(model, tracer)
    tracer.close()
    whole, part = noise_run(tmp_path), Trace(tmp_path / "part.h5")
    assert list(part.entries) == [("input", "norm", 0, 0, 0)]
    assert part.manifest["run"]["noise"]["at"] == "embedding"
    np.testing.assert_array_equal(
        part.value("input", "norm", microbatch=0), whole.value("input", "norm", microbatch=0)
    )


def test_a_noise_run_without_noise_is_an_error(tmp_path):
    tracer = tt.trace(nn.Linear(2, 2), out=tmp_path / "run.h5", perturb=tt.Perturb(1))
    with pytest.raises(tt.TraceError, match="nothing was perturbed"), tracer.step(0):
        pass


@pytest.mark.parametrize("arguments", [(-1,), (1, 0.0), (1, -1.0)])
def test_perturb_refuses_nonsense(arguments):
    with pytest.raises(tt.TraceError):
        tt.Perturb(*arguments)
