"""Rewritten runs in one process: what modules receive, what is recorded, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plans import planned, write_plan
from small_models import WIDTH, TiedGPT, batch, cross_entropy, seeded, train_step
from torch import nn
from torch.utils.checkpoint import checkpoint
from trace_reading import Trace

import ttrace_torch as tt

BOTH = {"inputs": {"std": 0.5, "mean": 0.25}, "grad_outputs": {"std": 0.001}}
SHAPE = (2, 5, WIDTH)


def rewritten(path, plan, model=None, steps=(0,), microbatches=1, **options):
    """The trace of a run of `model` under a plan."""
    model = seeded(TiedGPT) if model is None else model
    with tt.trace(model, out=path, plan=plan, **options) as tracer:
        for step in steps:
            train_step(model, tracer, step=step, microbatches=microbatches)
    trace = Trace(path)
    trace.check_complete()
    return trace


def test_inputs_and_gradients_are_those_of_the_plan(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("layers.*", BOTH), ("head", {"inputs": {"std": 2}}))
    trace = rewritten(tmp_path / "run.h5", plan, steps=(0, 1), microbatches=2)
    seen = 0
    for (kind, name, step, number, call), entry in trace.entries.items():
        layer, shape = name.startswith("layers."), entry["shape"]
        where = {"step": step, "batch": number, "call": call}
        if kind == "input" and layer:
            expected = planned("input", name, shape, 0.5, 0.25, **where)
        elif kind == "grad_output" and layer:
            expected = planned("grad_output", name, shape, 0.001, **where)
        elif (kind, name) == ("input", "head"):
            expected = planned("input", name, shape, 2.0, **where)
        else:
            continue
        np.testing.assert_array_equal(trace.merged(entry), expected, err_msg=f"{kind} {name}")
        seen += 1
    assert seen == 2 * 2 * (2 * 8 + 2 * 8 + 1)
    run = trace.manifest["run"]["plan"]
    assert run["modules"] == ["layers.*", "head"] and len(run["digest"]) == 64


def test_modules_compute_with_what_they_receive(tmp_path):
    """Output and gradients of a linear layer follow from the plan's tensors alone."""
    plan = write_plan(tmp_path / "plan.json", ("layers.1.attn", BOTH))
    model = seeded(TiedGPT)
    weight = model.layers[1].attn.weight.detach().clone()
    bias = model.layers[1].attn.bias.detach().clone()
    trace = rewritten(tmp_path / "run.h5", plan, model)
    x = torch.from_numpy(planned("input", "layers.1.attn", SHAPE, 0.5, 0.25))
    g = torch.from_numpy(planned("grad_output", "layers.1.attn", SHAPE, 0.001))
    close = {"rtol": 2e-5, "atol": 1e-7}

    def value(kind, name):
        return trace.value(kind, name, microbatch=0)

    expected = nn.functional.linear(x, weight, bias)
    np.testing.assert_allclose(value("output", "layers.1.attn"), expected, **close)
    raw = g.flatten(0, 1).T @ x.flatten(0, 1)
    np.testing.assert_allclose(value("param_grad", "layers.1.attn.weight"), raw, **close)
    # What the module hands back is its own: it reaches the modules before it.
    back = g @ weight
    np.testing.assert_allclose(value("grad_output", "layers.1.norm1"), back, **close)


def test_every_module_has_a_backward(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("*", BOTH))
    trace = rewritten(tmp_path / "run.h5", plan)
    plain = rewritten(tmp_path / "plain.h5", None)
    assert set(trace.entries) == set(plain.entries)
    assert trace.modules == plain.modules
    for name in trace.names("param_grad"):
        assert np.abs(trace.value("param_grad", name, microbatch=0)).max() > 0, name
    # The model's output is its head's: each has the gradient of its own name.
    for name in ("(model)", "head"):
        found = trace.value("grad_output", name, microbatch=0)
        np.testing.assert_array_equal(found, planned("grad_output", name, found.shape, 0.001))


def test_a_run_without_gradients_to_overwrite_leaves_the_backward_alone(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("norm", {"inputs": {"std": 1.0}}))
    trace = rewritten(tmp_path / "run.h5", plan)
    last = trace.value("grad_output", "layers.1", microbatch=0)
    assert np.abs(last).max() > 0
    ids = trace.value("input", "embedding", microbatch=0)
    np.testing.assert_array_equal(ids, batch()[0])


class Many(nn.Module):
    """Takes a tensor, integers, a parameter, and a pair by keyword; returns a dictionary."""

    def forward(self, x, index, weight, pair=None):
        first, second = pair
        return {"sum": x + first * weight, "index": index, "second": second * 2, "bias": weight}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.many = Many()

    def forward(self, x):
        found = self.many(x, torch.arange(3), self.weight, pair=(x + 1, (x + 2).double()))
        return (found["sum"] * found["bias"]).sum() + found["second"].sum(), found["index"]


def run_outer(path, plan):
    model = Outer()
    x = torch.zeros(2, 3, requires_grad=True)
    with tt.trace(model, out=path, plan=plan) as tracer, tracer.step(0):
        loss, index = model(x)
        loss.backward()
    assert torch.equal(index, torch.arange(3)) and x.grad is not None
    return Trace(path), model


def test_all_floating_point_tensors_but_no_parameters(tmp_path):
    plan = write_plan(
        tmp_path / "plan.json",
        ("many", {"inputs": {"std": 1}, "grad_outputs": {"std": 3}}),
    )
    trace, model = run_outer(tmp_path / "run.h5", plan)
    where = {"microbatch": 0}
    # A plan's values go by position, names in a trace by path.
    pair = ("many[pair][0]", "many[3]"), ("many[pair][1]", "many[4]")
    for path, name in (("many", "many"), *pair):
        found = trace.value("input", path, **where)
        np.testing.assert_array_equal(found, planned("input", name, (2, 3)))
    np.testing.assert_array_equal(trace.value("input", "many[index]", **where), np.arange(3))
    np.testing.assert_array_equal(trace.value("input", "many[weight]", **where), np.ones(3))
    for path, name in (("many[sum]", "many"), ("many[second]", "many[2]")):
        found = trace.value("grad_output", path, **where)
        np.testing.assert_array_equal(found, planned("grad_output", name, (2, 3), 3))
    # The gradient of a parameter that is handed on is autograd's own.
    total = planned("input", "many", (2, 3)) + planned("input", "many[3]", (2, 3))
    own = (planned("grad_output", "many", (2, 3), 3) * planned("input", "many[3]", (2, 3))).sum(0)
    expected = total.sum(0) + own
    np.testing.assert_allclose(model.weight.grad, expected, rtol=1e-5)


def test_tensors_by_index(tmp_path):
    members = {"inputs": [{"index": 3, "std": 1}], "grad_outputs": [{"index": 2, "std": 1}]}
    plan = write_plan(tmp_path / "plan.json", ("many", members))
    trace, _ = run_outer(tmp_path / "run.h5", plan)
    found = trace.value("input", "many[pair][0]", microbatch=0)
    np.testing.assert_array_equal(found, planned("input", "many[3]", (2, 3)))
    np.testing.assert_array_equal(trace.value("input", "many", microbatch=0), np.zeros((2, 3)))
    np.testing.assert_array_equal(
        trace.value("grad_output", "many[sum]", microbatch=0), np.ones((2, 3))
    )


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"inputs": [{"index": 1, "std": 1}]}, "input of many with the index 1; .* int64"),
        ({"inputs": [{"index": 9, "std": 1}]}, "input of many with the index 9"),
        ({"grad_outputs": [{"index": 1, "std": 1}]}, "output of many with the index 1"),
    ],
)
def test_an_index_without_a_floating_point_tensor_is_refused(tmp_path, members, said):
    plan = write_plan(tmp_path / "plan.json", ("many", members))
    with pytest.raises(tt.TraceError, match=said):
        run_outer(tmp_path / "run.h5", plan)


def test_later_entries_count_member_by_member_and_names_before_globs(tmp_path):
    plan = write_plan(
        tmp_path / "plan.json",
        ("layers.*.attn", BOTH),
        ("layers.0.attn", {"inputs": {"std": 9}}),
    )
    trace = rewritten(tmp_path / "run.h5", plan)
    for name, std, mean in (("layers.0.attn", 9, 0), ("layers.1.attn", 0.5, 0.25)):
        found = trace.value("input", name, microbatch=0)
        np.testing.assert_array_equal(found, planned("input", name, SHAPE, std, mean))
        found = trace.value("grad_output", name, microbatch=0)
        np.testing.assert_array_equal(found, planned("grad_output", name, SHAPE, 0.001))


def test_modules_that_are_not_recorded_are_rewritten_too(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("layers.0.mlp.1", {"inputs": {"std": 1}}))
    trace = rewritten(tmp_path / "run.h5", plan, modules=["layers.0.mlp.2"])
    found = trace.value("input", "layers.0.mlp.2", microbatch=0)
    np.testing.assert_array_equal(found, planned("input", "layers.0.mlp.1", found.shape).clip(0))


def test_every_call_has_values_of_its_own(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            return self.inner(self.inner(x))

    plan = write_plan(tmp_path / "plan.json", ("inner", BOTH))
    model = Twice()
    with tt.trace(model, out=tmp_path / "run.h5", plan=plan) as tracer, tracer.step(0):
        model(torch.ones(2, 3)).sum().backward()
    trace = Trace(tmp_path / "run.h5")
    for call in (0, 1):
        found = trace.value("input", "inner", microbatch=0, call=call)
        np.testing.assert_array_equal(
            found, planned("input", "inner", (2, 3), 0.5, 0.25, call=call)
        )
        found = trace.value("grad_output", "inner", microbatch=0, call=call)
        expected = planned("grad_output", "inner", (2, 3), 0.001, call=call)
        np.testing.assert_array_equal(found, expected)


class Checkpointed(TiedGPT):
    """Recomputes its blocks in the backward."""

    reentrant: bool | None = None

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            if self.reentrant is None:
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(self.norm(x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputation_sees_what_the_first_pass_saw(tmp_path, reentrant):
    plan = write_plan(tmp_path / "plan.json", ("layers.*", BOTH), ("head", BOTH))
    plain = rewritten(tmp_path / "plain.h5", plan, seeded(Checkpointed), microbatches=2)
    model = seeded(Checkpointed)
    model.reentrant = reentrant
    trace = rewritten(tmp_path / "run.h5", plan, model, microbatches=2)
    assert set(trace.entries) == set(plain.entries)
    for key, entry in plain.entries.items():
        np.testing.assert_array_equal(trace.value(*key), plain.merged(entry), err_msg=str(key))


def test_a_recomputation_in_another_micro_batch_is_refused(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("layers.*", BOTH))
    model = seeded(Checkpointed)
    model.reentrant = False
    tracer = tt.trace(model, out=tmp_path / "run.h5", plan=plan)
    with pytest.raises(tt.TraceError, match=r"recomputed inside micro-batch 1, .* 0; put"):
        with tracer.step(0):
            losses = []
            for number in range(2):
                with tracer.microbatch(number):
                    ids, targets = batch(seed=number)
                    losses.append(cross_entropy(model(ids), targets))
            with tracer.microbatch(1):
                losses[0].backward()


def test_several_micro_batches_as_one_have_the_values_each_has_alone(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("layers.*", BOTH))
    numbers = [2, 0]
    alone = rewritten(tmp_path / "alone.h5", plan, microbatches=3)
    model = seeded(TiedGPT)
    path = tmp_path / "together.h5"
    with tt.trace(model, out=path, plan=plan) as tracer, tracer.step(0):
        with tracer.microbatch(numbers):
            parts = [batch(seed=number) for number in numbers]
            ids, targets = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
            tracer.loss(cross_entropy(model(ids), targets)).backward()
    together = Trace(path)
    for kind, name in (("input", "layers.1"), ("grad_output", "layers.0.mlp.1")):
        parts = [alone.value(kind, name, microbatch=number) for number in numbers]
        np.testing.assert_array_equal(together.value(kind, name), np.concatenate(parts))


def test_a_tensor_that_several_micro_batches_share_is_refused(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("many", {"inputs": {"std": 1}}))
    model = Outer()
    with tt.trace(model, out=tmp_path / "run.h5", plan=plan) as tracer:
        with pytest.raises(tt.TraceError, match=r"\[0, 1, 2\] do not lie one after the other"):
            with tracer.step(0), tracer.microbatch([0, 1, 2]):
                model(torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (("layer.0", BOTH), "'layer.0' matches no module; nearest: layers.0"),
        (("embedding", {"inputs": {"std": 1}}), "the inputs of 'embedding' could overwrite"),
        (("layers", BOTH), "the inputs of 'layers' could overwrite"),
    ],
)
def test_what_has_nothing_to_overwrite_is_refused(tmp_path, entry, said):
    plan = write_plan(tmp_path / "plan.json", entry)
    with pytest.raises(tt.TraceError, match=said):
        rewritten(tmp_path / "run.h5", plan)


def test_gradients_that_never_came_are_refused(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("head", {"grad_outputs": {"std": 1}}))
    model = seeded(TiedGPT)
    with pytest.raises(tt.TraceError, match="the grad_outputs of 'head' could overwrite"):
        with tt.trace(model, out=tmp_path / "run.h5", plan=plan) as tracer, tracer.step(0):
            model(batch()[0])


def test_one_rank_of_several_may_lack_modules_and_says_so(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("layers.0", BOTH), ("layers.7", BOTH))
    model = seeded(TiedGPT)
    options = {"mesh": tt.Mesh({"pp": 2}), "rank": 0, "out": tmp_path / "run"}
    with pytest.warns(UserWarning, match=r"1 of its 2 entries match no module .*\(layers.7\)"):
        tracer = tt.trace(model, plan=plan, **options)
    with pytest.warns(UserWarning, match="nothing was met that the inputs of 'layers.0'"):
        with tracer.step(0):
            pass


def test_narrow_types_have_the_values_rounded_once_more(tmp_path):
    plan = write_plan(tmp_path / "plan.json", ("layers.*", BOTH))
    model = seeded(TiedGPT).to(torch.bfloat16)
    trace = rewritten(tmp_path / "run.h5", plan, model)
    found = trace.value("input", "layers.0", microbatch=0)
    expected = torch.from_numpy(planned("input", "layers.0", SHAPE, 0.5, 0.25)).bfloat16()
    np.testing.assert_array_equal(found, expected.double())
