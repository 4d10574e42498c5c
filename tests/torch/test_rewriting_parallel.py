"""Rewritten runs of several processes: the plan's tensors, and faults that no longer travel."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from parallel_model import reference as write_reference
from plans import planned, write_plan
from process_groups import run_ranks
from small_models import TiedGPT, batch, cross_entropy, seeded
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from test_distributed import HAND_LAYOUTS, RANKS, HandParallelModel, dtensor_rank
from torch import distributed, nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import Layout, Mesh, Partial

BOTH = {"inputs": {"std": 0.7, "mean": 0.1}, "grad_outputs": {"std": 0.002}}
PLAN = [("embedding", {"grad_outputs": {"std": 0.002}})]
PLAN += [(name, BOTH) for name in ("norm", "up", "down", "head")]
BLOCKS = ("attn", "mlp.0", "mlp.1", "mlp.2", "norm1", "norm2")
NAMES = [name for name, _ in PLAN]
# The bias stands on one rank alone; its gradient is that of the sum on both.
LAYOUTS = [
    *HAND_LAYOUTS,
    Layout(
        "down",
        params={"bias": {"tp": Partial("sum")}},
        param_grads={"bias": {}},
        main_grads={"bias": {}},
    ),
]
GPT_PLAN = [(f"layers.*.{name}", BOTH) for name in BLOCKS]
GPT_NAMES = [f"layers.{layer}.{name}" for layer in range(2) for name in BLOCKS]


class Doubled(torch.autograd.Function):
    """Twice the gradient that came."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def break_linear(module, fault):
    """Puts a fault into a linear layer, inside of what its hooks see."""
    right = module.forward
    if fault == "forward":
        module.forward = lambda x: right(x) * 1.01
    elif fault == "backward":
        module.forward = lambda x: Doubled.apply(right(x))


def one_step(model, path, plan, numbers=(0,), **options):
    """Traces a step of the micro-batches `numbers`, whose gradients add up."""
    with tt.trace(model, out=path, plan=plan, **options) as tracer, tracer.step(0):
        for number in numbers:
            with tracer.microbatch(number):
                ids, targets = batch(seed=number, length=6)
                tracer.loss(cross_entropy(model(ids), targets)).backward()
        if distributed.is_initialized() and "dp" in options["mesh"].axes:
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
        tracer.main_grads()


def check_planned(names, *traces):
    """Every floating-point input and gradient of these modules is the plan's, bit for bit."""
    counts = set()
    for trace in traces:
        count = 0
        for (kind, name, _, number, _), entry in trace.entries.items():
            if kind not in ("input", "grad_output") or name not in names:
                continue
            if entry["dtype"].startswith("int"):
                continue
            std, mean = (0.7, 0.1) if kind == "input" else (0.002, 0.0)
            whole = planned(kind, name, entry["shape"], std, mean, batch=number)
            np.testing.assert_array_equal(trace.merged(entry), whole, err_msg=f"{kind} {name}")
            count += 1
        counts.add(count)
    assert len(counts) == 1
    return counts.pop()


def compared(reference, candidate, report):
    """`ttrace compare`: what it did, and the (kind, name) of all tensors that diverged."""
    done = run_ttrace("compare", reference, candidate, "--json", report)
    found = json.loads(report.read_text(encoding="utf-8"))
    # Main gradients that a layout says are not reduced yet cannot be replayed, and it is told.
    warnings = [one for one in found["warnings"] if "replaying the optimizer" not in one]
    assert not warnings, warnings
    return done, {
        (one["key"]["kind"], one["key"]["name"])
        for one in found["results"]
        if one["outcome"] == "diverged"
    }


def hand_rank(rank, folder, plan, place, fault):
    model = seeded(lambda: HandParallelModel(rank))
    if place is not None:
        break_linear(getattr(model, place), fault)
    one_step(model, folder, plan, mesh=Mesh({"tp": RANKS}), layouts=LAYOUTS)


def hand_reference(path, plan):
    one_step(seeded(HandParallelModel), path, plan)
    return Trace(path)


def test_tensor_parallel_ranks_get_their_parts_of_the_same_tensors(tmp_path):
    plan = write_plan(tmp_path / "plan.json", *PLAN)
    reference = hand_reference(tmp_path / "ref.h5", plan)
    run_ranks(RANKS, hand_rank, tmp_path / "run", plan, None, None)
    candidate = Trace(tmp_path / "run")
    assert check_planned(NAMES, reference, candidate) == 9
    assert candidate.entry("output", "down", microbatch=0)["placements"] == {
        "tp": {"partial": "sum"}
    }
    done, found = compared(reference.path, candidate.path, tmp_path / "report.json")
    assert (done.returncode, found) == (MATCH, set()), done.stdout
    assert candidate.manifest["run"]["plan"] == reference.manifest["run"]["plan"]


@pytest.mark.parametrize(
    ("place", "fault", "expected"),
    [
        ("down", "forward", {"output", "param_grad", "main_grad"}),
        ("up", "forward", {"output", "param_grad", "main_grad"}),
        ("up", "backward", {"param_grad", "main_grad"}),
        ("head", "backward", {"param_grad", "main_grad"}),
    ],
)
def test_a_fault_shows_in_its_module_alone(tmp_path, place, fault, expected):
    plan = write_plan(tmp_path / "plan.json", *PLAN)
    hand_reference(tmp_path / "ref.h5", plan)
    run_ranks(RANKS, hand_rank, tmp_path / "run", plan, place, fault)
    done, found = compared(tmp_path / "ref.h5", tmp_path / "run", tmp_path / "report.json")
    assert done.returncode == DIVERGED, done.stdout
    assert {kind for kind, _ in found} == expected
    assert {name.split(".")[0] for _, name in found} == {place}, found
    # Without the plan it travels.
    hand_reference(tmp_path / "plain.h5", None)
    run_ranks(RANKS, hand_rank, tmp_path / "faulty", None, place, fault)
    _, travelled = compared(tmp_path / "plain.h5", tmp_path / "faulty", tmp_path / "plain.json")
    assert len({name.split(".")[0] for _, name in travelled}) > 2


def dp_rank(rank, folder, plan, broken):
    model = seeded(TiedGPT)
    if broken:
        break_linear(model.layers[1].mlp[0], "forward")
    one_step(model, folder, plan, numbers=(rank,), mesh=Mesh({"dp": RANKS}))


@pytest.mark.parametrize("broken", [False, True], ids=["healthy", "faulty"])
def test_data_parallel_ranks_get_the_tensors_of_their_micro_batches(tmp_path, broken):
    plan = write_plan(tmp_path / "plan.json", *GPT_PLAN)
    one_step(seeded(TiedGPT), tmp_path / "ref.h5", plan, numbers=range(RANKS))
    run_ranks(RANKS, dp_rank, tmp_path / "run", plan, broken)
    reference, candidate = Trace(tmp_path / "ref.h5"), Trace(tmp_path / "run")
    assert check_planned(GPT_NAMES, reference, candidate) == RANKS * 2 * len(GPT_NAMES)
    done, found = compared(reference.path, candidate.path, tmp_path / "report.json")
    assert done.returncode == (DIVERGED if broken else MATCH), done.stdout
    module = "layers.1.mlp.0"
    assert {name for _, name in found} == (
        {module, f"{module}.weight", f"{module}.bias"} if broken else set()
    )


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["tp", "tp+sp"])
def test_dtensors_get_their_parts_and_stay_dtensors(tmp_path, monkeypatch, sequence_parallel):
    plan = write_plan(tmp_path / "plan.json", *PLAN)
    monkeypatch.setenv("TTRACE_PLAN", str(plan))
    reference = write_reference(tmp_path / "ref.h5")
    run_ranks(RANKS, dtensor_rank, tmp_path / "run", sequence_parallel)
    candidate = Trace(tmp_path / "run")
    assert check_planned(NAMES, reference, candidate) == 9
    done, found = compared(reference.path, candidate.path, tmp_path / "report.json")
    assert (done.returncode, found) == (MATCH, set()), done.stdout


class Terms(nn.Module):
    """A layer that is given terms of a sum and returns them."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_terms_of_a_partial_tensor_reduce_to_the_plan(tmp_path, reduction):
    plan = write_plan(tmp_path / "plan.json", ("inner", BOTH))
    told = {"tp": Partial(reduction)}
    layouts = [Layout("*", input=told, output=told, grad_output=told)]
    for rank in range(3):
        options = {"mesh": Mesh({"tp": 3}), "rank": rank, "layouts": layouts, "plan": plan}
        model = Terms()
        with tt.trace(model, out=tmp_path / "run", **options) as tracer, tracer.step(0):
            model(torch.ones(4, 5, requires_grad=True)).sum().backward()
    trace = Trace(tmp_path / "run")
    for kind, std, mean in (("input", 0.7, 0.1), ("grad_output", 0.002, 0)):
        found = trace.value(kind, "inner", microbatch=0)
        np.testing.assert_array_equal(found, planned(kind, "inner", (4, 5), std, mean))
