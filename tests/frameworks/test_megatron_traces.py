"""What is in the traces of Megatron-core: kinds, numbers of tensors, ranges, initial values."""

from __future__ import annotations

from collections import Counter

import grid
import pytest
from agreement import entry_of, merged_values, told_to_the_optimizer
from megatron_cases import NEWEST
from megatron_runs import MODELS, SHALLOW, selected

LAYERS, STEPS, BATCHES = 4, 2, 4


def chosen(*models):
    """Those of the models that are trained."""
    return [model for model in models if model[0] in MODELS]


@pytest.mark.parametrize(
    ("model", "beside", "in_a_layer"),
    chosen(
        # The embeddings and the last norm; in a layer two norms and four linears with their biases.
        ("plain", 4, 12),
        ("half", 4, 12),
        # Embedding, head, last norm; in a layer four norms' weights and four linears without bias.
        ("modern", 3, 8),
        # In a layer two norms and attention's linears, the router, and two linears of an expert.
        ("experts", 4, 2 * 2 + 2 + 1 + 4 * 2),
    ),
)
def test_all_kinds_are_recorded(model, beside, in_a_layer, megatron):
    layers = SHALLOW.get(model, LAYERS)
    parameters = beside + in_a_layer * layers
    counts = Counter(key[0] for key in grid.keys(megatron.reference(NEWEST, model)))
    assert counts["param"] == counts["main_grad"] == counts["param_after_step"]
    assert counts["param"] == STEPS * parameters
    assert counts["param_grad"] == STEPS * BATCHES * parameters
    assert counts["loss"] == STEPS * BATCHES
    assert counts["grad_norm"] == STEPS
    # Adam's two moments, which the first update begins without, and wider copies of parameters.
    wider = STEPS if model == "half" else 0
    assert counts["optimizer_state"] == ((STEPS - 1) * 2 + wider) * parameters
    for kind in ("input", "output", "grad_output"):
        assert counts[kind] > STEPS * BATCHES * layers * 10


def test_router_tells_probabilities_and_choice(megatron):
    names = Counter(
        key[1] for key in grid.keys(megatron.trace(NEWEST, "experts_ep2")) if key[0] == "output"
    )
    for layer in range(SHALLOW["experts"]):
        router = f"decoder.layers.{layer}.mlp.router"
        assert names[router] == names[f"{router}[1]"] == STEPS * BATCHES
    # Which tokens come to an expert depends on their values, so they are in no layout's order.
    assert not [name for name in names if "local_experts" in name]


@pytest.mark.parametrize("name", selected("plain_tp2_sp", "plain_dp2_zero", "plain_tp2_dp2_zero"))
def test_what_the_optimizer_was_told(name, megatron):
    expected = told_to_the_optimizer(megatron.reference(NEWEST, name))
    assert told_to_the_optimizer(megatron.trace(NEWEST, name)) == expected
    assert {entry["type"] for entry in expected.values()} == {"adamw"}
    assert {entry["clip_norm"] for entry in expected.values()} == {1.0}
    # Without a scheduler, which would spare biases and norms, all parameters decay.
    assert {entry["weight_decay"] for entry in expected.values()} == {0.1}


@pytest.mark.parametrize("name", selected("plain_dp2_zero", "plain_tp2_dp2_zero"))
def test_distributed_optimizer_is_described_by_ranges(name, megatron):
    weight = "decoder.layers.1.mlp.linear_fc1.weight"
    trace = megatron.trace(NEWEST, name)
    entry = entry_of(trace, "main_grad", weight)
    assert entry["shape"] == [128, 32]
    axes = {axis["name"]: axis["size"] for axis in grid.manifest(trace)["meshes"][""]["axes"]}
    assert set(entry["placements"]) == {"tp", "dp"}
    assert entry["placements"]["tp"] == {"shard": 0}
    (first, middle), (again, last) = entry["placements"]["dp"]["flat"]
    assert (first, again, last) == (0, middle, 128 // axes["tp"] * 32)


@pytest.mark.parametrize("name", selected("half_tp2_sp", "half_tp2_pp2_sp"))
def test_half_precision_keeps_its_types(name, megatron):
    entries = grid.manifest(megatron.trace(NEWEST, name))["tensors"]
    for kind in ("param", "param_after_step", "param_grad"):
        assert {entry["dtype"] for entry in entries if entry["kind"] == kind} == {"bfloat16"}
    assert {entry["dtype"] for entry in entries if entry["kind"] == "main_grad"} == {"float32"}


@pytest.mark.parametrize(
    "name",
    selected(
        "plain_tp2_sp",
        "plain_pp2_vpp2",
        "plain_dp2_zero",
        "modern_tp2_sp",
        "experts_ep2",
        "half_tp2_sp",
        "half_tp2_pp2_sp",
    ),
)
def test_initial_values_are_those_of_one_process(name, megatron, tmp_path):
    expected, found = (
        merged_values(trace, tmp_path / f"{number}.h5", "--kind", "param", "--step", "0")
        for number, trace in enumerate(
            (megatron.reference(NEWEST, name), megatron.trace(NEWEST, name))
        )
    )
    assert len(expected) > 25
    assert found == expected
