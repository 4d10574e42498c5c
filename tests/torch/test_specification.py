"""A model's specification under fake tensors agrees with what its real step records."""

from __future__ import annotations

import json

import jsonschema
import pytest
import torch
from small_models import TiedGPT, batch, cross_entropy, seeded
from support.evaluate_specification import EPSILON, Evaluation
from torch import nn
from trace_reading import SCHEMAS

import ttrace_torch as tt

VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((SCHEMAS / "specification.schema.json").read_text(encoding="utf-8"))
)


def traced(model, path, step):
    """One traced step: `step` runs the model and returns the loss."""
    tracer = tt.trace(model, out=path)
    with tracer.step(0), tracer.microbatch(0):
        tracer.loss(step(tracer)).backward()
    tracer.close()
    return path


def judged(specification, trace, **changed):
    VALIDATOR.validate(specification)
    evaluation = Evaluation(specification, trace, **changed)
    return evaluation, evaluation.judge_all()


def worst(judgements):
    return max(one.error for one in judgements if one.error is not None)


def one_tensor(specification, kind, name):
    return next(t for t in specification["tensors"] if (t["kind"], t["name"]) == (kind, name))


def primitives(specification, tensor):
    return [node[0] for node in specification["patterns"][tensor["pattern"]]["nodes"]]


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float32, 4.0), (torch.bfloat16, 1.1)], ids=["fp32", "bf16"]
)
def test_every_tensor_of_a_step_follows(tmp_path, dtype, limit):
    model = seeded(TiedGPT).to(dtype)
    ids, targets = batch()
    specification = tt.specify(
        model, ids, loss=lambda out: cross_entropy(out, targets), data={"targets": targets}
    )

    def step(tracer):
        tracer.scalar("targets", targets)
        return cross_entropy(model(ids), targets)

    trace = traced(model, tmp_path / "run.h5", step)
    evaluation, judgements = judged(specification, trace)
    assert worst(judgements) < limit
    assert evaluation.coverage(judgements) >= 0.95
    assert "opaque" not in specification
    assert specification["after_backward"]["tied"] == [["embedding.weight", "head.weight"]]
    assert specification["precision"] == str(dtype).removeprefix("torch.")
    evaluation, judgements = judged(
        specification, trace, changed={("param_grad", "layers.0.attn.weight"): 1.01}
    )
    seen = 0.009 / EPSILON[specification["precision"]]
    (wrong,) = [one for one in judgements if one.error is not None and one.error > seen]
    assert wrong.key == ("param_grad", "layers.0.attn.weight", 0)


def patterns(specification):
    return [one.get("pattern") for one in specification["tensors"]]


@pytest.mark.parametrize(
    "loss",
    [
        lambda out, targets: cross_entropy(out, targets),
        lambda out, **data: cross_entropy(out, data["targets"]),
    ],
    ids=["by name", "all"],
)
def test_a_loss_takes_its_data_by_name(loss):
    ids, targets = batch()
    given = {"targets": targets}
    by_closure = tt.specify(
        seeded(TiedGPT), ids, loss=lambda out: cross_entropy(out, targets), data=given
    )
    found = tt.specify(seeded(TiedGPT), ids, loss=loss, data=given)
    assert patterns(found) == patterns(by_closure)
    assert "opaque" not in found


def test_layers_share_their_patterns():
    ids, _ = batch()
    small, large = (
        tt.specify(seeded(lambda layers=layers: TiedGPT(layers)), ids, loss=torch.sum)
        for layers in (3, 9)
    )
    assert len(small["patterns"]) == len(large["patterns"])


def test_neither_the_model_nor_its_gradients_change():
    model = seeded(TiedGPT)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    own = dict(model.named_parameters())
    tt.specify(model, batch()[0], loss=torch.sum)
    for name, parameter in model.named_parameters():
        assert parameter is own[name]
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None
    assert model.head.weight is model.embedding.weight
    assert not any(module._forward_hooks for module in model.modules())


def test_model_without_memory_has_the_same_specification():
    ids, _ = batch()
    real = tt.specify(seeded(TiedGPT), ids, loss=torch.sum)
    with torch.device("meta"):
        empty = TiedGPT()
    for other in (tt.specify(empty, ids, loss=torch.sum), tt.specify(TiedGPT, ids, loss=torch.sum)):
        assert other["patterns"] == real["patterns"]
        for one, two in zip(other["tensors"], real["tensors"], strict=True):
            assert {**one, "module": None} == {**two, "module": None}


def test_file_holds_what_is_returned(tmp_path):
    path = tmp_path / "new" / "specification.json"
    found = tt.specify(seeded(TiedGPT), batch()[0], loss=torch.sum, file=path)
    assert json.loads(path.read_text()) == found
    assert [p.name for p in path.parent.iterdir()] == ["specification.json"]


class Mixed(nn.Module):
    """Operations in place, on views and on slices, constants and buffers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 6)
        self.register_buffer("scales", torch.linspace(0.5, 2.0, 8))
        self.mask = torch.ones(4, 4, dtype=torch.bool).tril()
        self.shift = torch.tensor([0.25, -0.5, 0.125, 1.0, 2.0, -1.0])

    def forward(self, x):
        y = self.first(x) * self.scales
        y = y.clone()
        y[:, 1:3] *= 2.0
        y[..., ::2].add_(1.0)
        rows = y.view(4, 2, 4)
        rows[:, 1] = rows[:, 0] * 0.5
        y = y.masked_fill(y > 3.0, 0.5)
        scores = (y @ y.t()).masked_fill(~self.mask, float("-inf")).softmax(-1)
        y = torch.cat([scores @ y, y.flip(0)], dim=0).unflatten(0, (2, 4)).sum(0)
        z = self.second(torch.where(y > 0, y, 0.1 * y)) + self.shift
        return torch.roll(z, 1, dims=-1), z.argmax(-1)


def test_views_and_writes_in_place(tmp_path):
    model = seeded(Mixed)
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(3))
    specification = tt.specify(model, x, loss=lambda out: out[0].square().mean())
    trace = traced(model, tmp_path / "run.h5", lambda _: model(x)[0].square().mean())
    evaluation, judgements = judged(specification, trace)
    assert "opaque" not in specification
    assert evaluation.coverage(judgements) == pytest.approx(1 - 1 / len(evaluation.recorded_keys()))
    assert worst(judgements) < 4.0
    assert one_tensor(specification, "buffer", "scales")["values"] == model.scales.tolist()


class Random(nn.Module):
    """Dropout, whose mask nothing records."""

    def __init__(self):
        super().__init__()
        self.first, self.dropout, self.last = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.dropout(self.first(x)))


def test_what_no_primitive_expresses_is_opaque():
    specification = tt.specify(Random(), torch.zeros(3, 4), loss=torch.sum)
    VALIDATOR.validate(specification)
    dropout = one_tensor(specification, "output", "dropout")
    assert dropout["opaque"] == "aten.bernoulli_" or "dropout" in dropout["opaque"]
    first = specification["tensors"].index(one_tensor(specification, "output", "first"))
    assert first in dropout["from"]
    # What follows is expressed again, from the recorded output.
    assert primitives(specification, one_tensor(specification, "output", "last"))[-1] == "add"


class Ordered(nn.Module):
    """Rows in the order of their classes."""

    def __init__(self, stable):
        super().__init__()
        self.stable, self.last = stable, nn.Identity()

    def forward(self, x):
        sort = torch.ops.aten.sort if self.stable is None else torch.sort
        order = sort(x.argmax(-1), **({} if self.stable is None else {"stable": self.stable}))[1]
        return self.last(x[order])


def test_order_of_equal_numbers_is_opaque_where_somebody_asked_for_any():
    found = {
        stable: one_tensor(
            tt.specify(Ordered(stable), torch.zeros(5, 3, requires_grad=True), loss=torch.sum),
            "input",
            "last",
        )
        for stable in (True, False, None)
    }
    assert "pattern" in found[True]
    assert found[False]["opaque"] == "aten.sort"
    # An operation that is called below Python's functions.
    assert found[None]["opaque"] == "aten.sort"


class Repeated(nn.Module):
    """One module called twice, optional arguments, and tied outputs."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, scale=None):
        y = self.layer(self.layer(x))
        return y if scale is None else y * scale


def test_calls_and_arguments_have_the_names_of_the_trace(tmp_path):
    model = seeded(Repeated)
    x, scale = torch.randn(3, 4), torch.randn(4)
    specification = tt.specify(model, x, scale=scale, loss=torch.sum)
    trace = traced(model, tmp_path / "run.h5", lambda _: model(x, scale=scale).sum())
    evaluation, judgements = judged(specification, trace)
    assert {one.key for one in judgements} == evaluation.recorded_keys()
    assert {("output", "layer", 1), ("input", "(model)[scale]", 0)} < evaluation.recorded_keys()


def test_checkpointed_segment_follows_from_its_first_run(tmp_path):
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(TiedGPT):
        def forward(self, ids):
            x = self.embedding(ids)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return self.head(self.norm(x))

    ids, _ = batch()
    plain = tt.specify(seeded(TiedGPT), ids, loss=torch.sum)
    saved = tt.specify(seeded(Checkpointed), ids, loss=torch.sum)
    assert saved["patterns"] == plain["patterns"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "returns no loss"),
        ({"loss": torch.sum, "combine": "max"}, "neither"),
        ({"loss": torch.sum, "precision": "int8"}, "^precision='int8' is no floating-point type"),
        ({"loss": torch.sum, "kept_precision": "int8"}, "^kept_precision='int8' is no floating"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(tt.TraceError, match=message):
        tt.specify(nn.Linear(3, 3), torch.zeros(2, 3), **arguments)
