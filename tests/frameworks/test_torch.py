"""PyTorch's own parallelism: scripts traced on one process and in every layout must agree.

No layout, no mesh and no global micro-batch is said by the scripts.
"""

from __future__ import annotations

from collections import Counter

import agreement
import grid
import pytest
from agreement import entry_of
from support.ttrace_cli import REPOSITORY

LAUNCHER = "launch_torch.py"

# The four layers of the model are for several stages on each of two processes.
TWO = {"layers": 2}
MODELS = {
    "float32": {"kind": "plain", **TWO},
    # A single process has to compute as the others do, so it has FSDP2's mixed precision too.
    "bfloat16": {"kind": "fsdp", "axes": {"dp": 1}, "bf16": True, **TWO},
    "staged": {"kind": "plain"},
}
REFERENCES = {
    **MODELS,
    **{f"{n}_noise{seed}": {**MODELS[n], "noise": seed} for n in MODELS for seed in grid.SEEDS},
}
DDP = {"kind": "ddp", **TWO}
TP = {"kind": "tp", "axes": {"tp": 2}, **TWO}
FSDP = {"kind": "fsdp", "axes": {"dp": 2}, **TWO}
BOTH = {"kind": "fsdp", "axes": {"dp": 2, "tp": 2}, **TWO}
ONE_STAGE = {"schedule": "1f1b", **TWO}
INTERLEAVED = {"schedule": "interleaved", "stages": 2}
# Name -> case, and the label in the manifest after the version.
ON_TWO = {
    "ddp": (DDP, "DDP"),
    "fsdp2_bf16": ({**FSDP, "bf16": True}, "FSDP2"),
    "tp_sequence": ({**TP, "sequence": True}, "tensor parallelism"),
    "interleaved": (INTERLEAVED, "pipelining"),
}
ON_FOUR = {
    "fsdp2_tp": (BOTH, "FSDP2 + tensor parallelism"),
    "interleaved_fsdp2": ({**INTERLEAVED, "data": "fsdp"}, "pipelining + FSDP2"),
}
LONG_ON_TWO = {
    "tp": (TP, "tensor parallelism"),
    "fsdp2": (FSDP, "FSDP2"),
    "1f1b": (ONE_STAGE, "pipelining"),
    "gpipe": ({**ONE_STAGE, "schedule": "gpipe"}, "pipelining"),
    "zero_bubble": ({"schedule": "zero_bubble", "stages": 2}, "pipelining"),
}
LONG_ON_FOUR = {
    "1f1b_ddp": ({**ONE_STAGE, "data": "ddp"}, "pipelining + DDP"),
    "hsdp": ({**FSDP, "axes": {"replicas": 2, "shards": 2}}, "HSDP"),
    "fsdp2_tp_sequence": ({**BOTH, "sequence": True}, "FSDP2 + tensor parallelism"),
}
CASES = grid.cases("PyTorch", {**ON_TWO, **ON_FOUR}, {**LONG_ON_TWO, **LONG_ON_FOUR})
# Case, where it diverges first, and what the report has to say of it.
FAULTS = {
    "left_in_no_sync": (
        {**DDP, "fault": "no_sync"},
        "embedding.weight · main_grad · step 0",
        "missing_reduction over dp: the mean of the copies is the reference",
    ),
    "divided_by_the_wrong_count": (
        {**FSDP, "fault": "wrong_count"},
        "loss · grad_output · step 0 · mb 0",
        "2 times the reference",
    ),
    "norms_not_summed": (
        {**TP, "sequence": True, "fault": "norms_not_summed"},
        # Its raw gradients are terms of a sum, as the graph tells.
        "layers.0.attention_norm.weight · main_grad · step 0",
        "missing_reduction over tp: the sum of the copies is the reference",
    ),
    "not_scaled": (
        {**ONE_STAGE, "fault": "not_scaled"},
        "loss · grad_output · step 0 · mb 0",
        "4 times the reference",
    ),
    "targets_swapped": (
        {**INTERLEAVED, "fault": "targets_swapped"},
        "loss · loss · step 0 · mb 0",
        "output of (model) matches",
    ),
}


@pytest.fixture(scope="module")
def references(python, tmp_path_factory):
    return agreement.train(python, LAUNCHER, 1, REFERENCES, tmp_path_factory.mktemp("references"))


@pytest.fixture(scope="module")
def on_two(python, tmp_path_factory):
    known = {**ON_TWO, **LONG_ON_TWO, **FAULTS}
    cases = {name: known[name][0] for name in known if name in CASES}
    cases |= {name: agreement.first_step(known[name][0]) for name in FAULTS}
    return agreement.train(python, LAUNCHER, 2, cases, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def on_four(python, tmp_path_factory):
    known = {**ON_FOUR, **LONG_ON_FOUR}
    cases = {name: known[name][0] for name in known if name in CASES}
    return agreement.train(python, LAUNCHER, 4, cases, tmp_path_factory.mktemp("four"))


def reference_of(references, case):
    """The trace on one process, and the perturbed ones."""
    model = "staged" if "stages" in case else "bfloat16" if case.get("bf16") else "float32"
    noise = [references / f"{model}_noise{seed}.h5" for seed in grid.SEEDS]
    return references / f"{model}.h5", noise


@pytest.mark.parametrize("name", CASES)
def test_layouts_agree_with_one_process(name, references, request):
    four = name in ON_FOUR or name in LONG_ON_FOUR
    out = request.getfixturevalue("on_four" if four else "on_two") / name
    case, label = CASES[name]
    agreement.check_agreement(name, out, *reference_of(references, case))
    framework = grid.manifest(out)["run"]["framework"]
    assert framework.startswith("PyTorch ") and framework.endswith(f" + {label}")


def test_all_kinds_are_recorded(references):
    counts = Counter(key[0] for key in grid.keys(references / "float32.h5"))
    layers, steps, batches = 2, 2, 4
    # The embedding, the last norm and the head; in a layer two norms and two linears with their
    # biases, and the four weights of attention.
    parameters = 1 + 12 * layers + 3
    # The model, its embedding, norm and head; in a layer itself, two norms, attention and its four
    # linears, the feed-forward and its three.
    modules = 4 + 12 * layers
    assert dict(counts) == {
        "param": steps * parameters,
        "main_grad": steps * parameters,
        "param_after_step": steps * parameters,
        # Adam's two moments, which the first update begins without.
        "optimizer_state": (steps - 1) * 2 * parameters,
        "param_grad": steps * batches * parameters,
        "input": steps * batches * modules,
        "output": steps * batches * modules,
        # That of the loss is what the script multiplies it by.
        "grad_output": steps * batches * (modules + 1),
        "loss": steps * batches,
        "grad_norm": steps,
    }


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name, references, on_two):
    case, where, said = FAULTS[name]
    reference = reference_of(references, case)
    assert said in agreement.divergence(on_two / name, *reference, where)


def test_meshes_come_from_the_model(on_two, on_four):
    def axes(path):
        return {axis["name"]: axis["size"] for axis in grid.manifest(path)["meshes"][""]["axes"]}

    assert axes(on_two / "ddp") == axes(on_two / "fsdp2_bf16") == {"dp": 2}
    assert axes(on_two / "tp_sequence") == {"tp": 2}
    assert axes(on_two / "interleaved") == {"pp": 2}
    assert axes(on_four / "fsdp2_tp") == {"dp": 2, "tp": 2}
    assert axes(on_four / "interleaved_fsdp2") == {"dp": 2, "pp": 2}
    if grid.LONG:
        assert axes(on_four / "hsdp") == {"replicas": 2, "shards": 2}
        assert axes(on_four / "1f1b_ddp") == {"dp": 2, "pp": 2}


def test_where_tensors_lie(on_two, on_four):
    # Element by element of what a column-parallel layer returned; the sum of two parts of rows.
    act = entry_of(on_two / "tp_sequence", "output", "layers.0.feed_forward.act", 0)
    assert act["placements"] == {"tp": {"shard": 2}} and act["shape"] == [2, 8, 128]
    whole = entry_of(on_four / "fsdp2_tp", "output", "layers.0", 0)
    assert "tp" not in whole.get("placements", {})
    rows = entry_of(on_two / "tp_sequence", "output", "layers.0", 0)
    assert rows["placements"] == {"tp": {"shard": 1}}
    # The second of two data-parallel ranks has the last two of four micro-batches.
    raw = entry_of(on_four / "fsdp2_tp", "param_grad", "layers.1.attention.wq.weight", 3)
    assert raw["held_at"] == {"dp": [1]} and raw["scale"] == 0.5
    # Stages dealt out in turn: layer 2 on the first rank again.
    held = entry_of(on_two / "interleaved", "output", "layers.2", 1)["held_at"]
    assert held == {"pp": [0]}
    assert entry_of(on_two / "interleaved", "input", "(model)", 0)["placements"] == {
        "pp": {"only": 0}
    }
    assert entry_of(on_two / "interleaved", "output", "(model)", 0)["placements"] == {
        "pp": {"only": 1}
    }
    gradient = entry_of(on_four / "interleaved_fsdp2", "main_grad", "layers.3.attention.wo.weight")
    assert gradient["held_at"] == {"pp": [1]} and gradient["placements"] == {"dp": {"shard": 0}}
    # Two micro-batches on each of two data-parallel ranks.
    raw = entry_of(on_four / "interleaved_fsdp2", "grad_output", "layers.3", 3)
    assert raw["held_at"] == {"dp": [1], "pp": [1]} and raw["scale"] == 0.25


@pytest.mark.parametrize(
    ("script", "pages"),
    [("train_torch.py", ["ddp.md", "fsdp2.md"]), ("train_pipeline.py", ["pipelining.md"])],
)
def test_the_user_adds_few_lines(script, pages):
    added = agreement.added_lines(script)
    for page in pages:
        text = (REPOSITORY / "lib" / "torch" / "docs" / page).read_text(encoding="utf-8")
        diff = text.split("```diff\n", 1)[1].split("```", 1)[0]
        shown = [line for line in diff.splitlines() if line.startswith("+")]
        assert len(shown) == len(added)
        words = {7: "seven", 9: "nine"}
        assert f"## The diff: {words[len(added)]} lines" in text
