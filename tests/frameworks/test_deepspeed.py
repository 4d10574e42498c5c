"""DeepSpeed on the CPU: one script, traced in every stage of ZeRO, must agree with one process.

In fp32 the reference is plain PyTorch, so that no line of DeepSpeed is on both sides. In 16 bits it
is DeepSpeed's ZeRO-1 on one process, which like all of them updates weights that are kept in fp32.
"""

from __future__ import annotations

from collections import Counter

import agreement
import grid
import pytest
from agreement import entry_of, told_to_the_optimizer
from support.ttrace_cli import run_ttrace

LAUNCHER = "launch_deepspeed.py"

BF16 = {"bf16": {"enabled": True}}
FP16 = {"fp16": {"enabled": True, "loss_scale": 128}}
WIDE = {"data_types": {"grad_accum_dtype": "fp32"}}

REFERENCES = {
    "plain": {},
    "untied": {"tied": False},
    "bf16": {"stage": 1, "settings": BF16},
    "fp16": {"stage": 1, "settings": FP16},
}
ON_ONE = {"plain_one_process": {"stage": 0}}
QUICK = {
    "plain_zero0": {"stage": 0},
    "plain_zero1": {"stage": 1},
    "plain_zero2": {"stage": 2},
    "plain_zero3": {"stage": 3},
    # Some parameters stay gathered.
    "plain_step_once": {
        "stage": 3,
        "loop": "step_once",
        "zero": {"stage3_param_persistence_threshold": 100},
    },
    # `loss.backward()`: the engine divides the gradient of what the model returns.
    "plain_backward": {"stage": 2, "loop": "plain_backward"},
    "bf16_zero1_wide": {"stage": 1, "settings": {**BF16, **WIDE}},
    "bf16_zero2_wide": {"stage": 2, "settings": {**BF16, **WIDE}},
    "fp16_zero2": {"stage": 2, "settings": FP16},
}
LONG = {
    "plain_zero1_robin": {"stage": 1, "zero": {"round_robin_gradients": True}},
    "plain_zero2_buckets": {
        "stage": 2,
        "zero": {"reduce_bucket_size": 500, "reduce_scatter": False, "overlap_comm": True},
    },
    # Several groups of parameters for the optimizer, and some that stay gathered.
    "plain_zero3_groups": {
        "stage": 3,
        "zero": {"sub_group_size": 1000, "stage3_param_persistence_threshold": 100},
    },
    "plain_numbered": {"stage": 2, "loop": "own_numbers"},
    "untied_zero2": {"stage": 2, "tied": False},
    "untied_zero3": {"stage": 3, "tied": False},
    "bf16_zero2": {"stage": 2, "settings": BF16},
    "bf16_zero3": {"stage": 3, "settings": BF16},
    "fp16_zero3": {"stage": 3, "settings": FP16},
}
CASES = grid.cases("DeepSpeed", QUICK, LONG)
FAULTS = {
    "unreduced": {"stage": 0, "reduce": False},
    "divided_twice": {"stage": 2, "divisor": 2},
    "fp16_zero0": {"stage": 0, "settings": FP16},
}
REFUSED = {
    "halfway": "begins after 1 of 4 micro-batches",
    "half_a_step": "ends after 1 of 4 micro-batches",
    "too_many": "forward 5 in a step of 4 micro-batches",
    "forwards_first": "4 forwards before backward 1",
    "too_early": "between the last backward and the step alone",
    "mesh": "DeepSpeed's data-parallel group tells the mesh",
    "other_optimizer": "SGD is not the engine's",
}


def with_noise(references):
    perturbed = {
        f"{name}_noise{seed}": {**case, "noise": seed}
        for name, case in references.items()
        for seed in grid.SEEDS
    }
    return {**references, **perturbed}


@pytest.fixture(scope="module")
def references(python, tmp_path_factory):
    models = {name.split("_")[0] for name in CASES}
    chosen = with_noise({name: case for name, case in REFERENCES.items() if name in models})
    out = tmp_path_factory.mktemp("references")
    refused = {name: {"stage": 2, "loop": name, "refused": True} for name in REFUSED}
    own = {name: {"stage": 2, "loop": name} for name in ("own_loss", "own_loss_plain")}
    return agreement.train(python, LAUNCHER, 1, {**chosen, **ON_ONE, **refused, **own}, out)


@pytest.fixture(scope="module")
def on_two(python, tmp_path_factory):
    faults = {name: agreement.first_step(case) for name, case in FAULTS.items()}
    return agreement.train(python, LAUNCHER, 2, {**CASES, **faults}, tmp_path_factory.mktemp("two"))


def reference_of(references, name):
    """The trace that case `name` is compared with, and the perturbed ones."""
    model = name.split("_")[0]
    noise = [references / f"{model}_noise{seed}.h5" for seed in grid.SEEDS]
    return references / f"{model}.h5", noise


@pytest.mark.parametrize("name", [*ON_ONE, *CASES])
def test_stages_agree_with_one_process(name, references, request):
    if name in ON_ONE:
        out = references / f"{name}.h5"
    else:
        out = request.getfixturevalue("on_two") / name
    agreement.check_agreement(name, out, *reference_of(references, name))
    assert grid.manifest(out)["run"]["framework"] == "DeepSpeed 0.19.8"
    assert grid.manifest(out)["run"]["model"] == "SmallGpt"


def test_all_kinds_are_recorded(on_two):
    # Two embeddings, the last norm; in a layer two norms, three linears with a bias, one without.
    layers, steps, batches = 2, 2, 4
    parameters = 2 + layers * 11 + 2
    # The model, its embeddings, norm and head; in a layer the layer, norms and linears.
    modules = 1 + 4 + layers * 7
    for name in ("plain_zero0", "plain_zero1", "plain_zero2", "plain_zero3"):
        counts = Counter(key[0] for key in grid.keys(on_two / name))
        assert counts == {
            "param": steps * parameters,
            "main_grad": steps * parameters,
            "param_after_step": steps * parameters,
            # Adam's two moments, which the first update begins without.
            "optimizer_state": (steps - 1) * 2 * parameters,
            "param_grad": steps * batches * parameters,
            "output": steps * batches * modules,
            # That of the loss is what it is multiplied by.
            "grad_output": steps * batches * (modules + 1),
            # The model itself takes labels too.
            "input": steps * batches * (modules + 1),
            "loss": steps * batches,
            "grad_norm": steps,
        }


def test_who_holds_what(on_two):
    odd = "blocks.0.up.bias"  # of 81 elements
    for kind in ("param", "main_grad", "param_after_step"):
        assert "placements" not in entry_of(on_two / "plain_zero0", kind, odd)
        three = entry_of(on_two / "plain_zero3", kind, odd)
        assert three["shape"] == [81]
        assert three["placements"] == {"dp": {"flat": [[0, 41], [41, 81]]}}
    for name in ("plain_zero1", "plain_zero2"):
        cut = [
            entry["placements"]["dp"]["flat"]
            for entry in grid.manifest(on_two / name)["tensors"]
            if entry["kind"] == "main_grad"
        ]
        assert len(cut) == 2 * 26
        # A group's border falls into one parameter; the others are one rank's.
        assert sum(0 < ranges[0][1] < ranges[1][1] for ranges in cut) == 2 * 2
        for kind in ("param", "param_after_step"):
            assert "placements" not in entry_of(on_two / name, kind, odd)
    assert "placements" not in entry_of(on_two / "plain_zero3", "param_grad", odd, 0)


def test_types_and_scales(on_two):
    name = "blocks.1.qkv.weight"
    half, wide = on_two / "fp16_zero2", on_two / "bf16_zero2_wide"
    assert entry_of(half, "main_grad", name)["scale"] == 1 / 128
    assert entry_of(half, "param_grad", name, 0)["scale"] == 1 / 256
    assert entry_of(half, "grad_output", "norm", 0)["scale"] == 1 / 256
    assert entry_of(half, "main_grad", name)["dtype"] == "float16"
    assert entry_of(wide, "param", name)["dtype"] == "bfloat16"
    assert entry_of(wide, "main_grad", name)["dtype"] == "float32"
    assert entry_of(on_two / "plain_zero3", "param_grad", name, 0)["scale"] == 1 / 2
    assert "scale" not in entry_of(on_two / "plain_zero3", "main_grad", name)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("plain")])
def test_what_the_optimizer_was_told(name, references, on_two):
    expected = told_to_the_optimizer(references / "plain.h5")
    assert told_to_the_optimizer(on_two / name) == expected
    assert {entry["type"] for entry in expected.values()} == {"adamw"}
    assert {entry["clip_norm"] for entry in expected.values()} == {0.5}
    assert {entry["updates"] for entry in expected.values()} == {1, 2}


def report_of(name, references, on_two, first):
    model = "fp16_" if name.startswith("fp16") else "plain_"
    return agreement.divergence(on_two / name, *reference_of(references, model), first)


def test_lost_reduction_is_named(references, on_two):
    first = "words.weight · main_grad · step 0"
    report = report_of("unreduced", references, on_two, first)
    assert "missing_reduction over dp" in report


def test_loss_divided_twice_is_found_where_it_happens(references, on_two):
    first = "loss · grad_output · step 0 · mb 0"
    report = report_of("divided_twice", references, on_two, first)
    assert "reference 0.25, candidate 0.125" in report


def test_fp16_without_zero_is_found_to_lack_its_loss_scale(references, on_two):
    # DeepSpeed 0.19.8 itself: without ZeRO `engine.backward` leaves the loss unscaled, and the
    # step divides by the scale all the same. Adam and clipping hide it from the loss curve.
    # And its optimizer has made a step, without gradients, before the first: AdamW's decay alone
    # moved the fp32 weights, of which the fp16 ones are no longer the rounding.
    first = "words.weight.main_param · optimizer_state · step 0"
    report = report_of("fp16_zero0", references, on_two, first)
    assert "are not what the model holds before the step" in report
    assert "reference 0.25, candidate 0.00195" in report
    assert told_to_the_optimizer(on_two / "fp16_zero0")[0, "norm.bias"]["updates"] == 2


def test_what_cannot_be_told_is_refused(references):
    for name, words in REFUSED.items():
        assert words in (references / f"{name}.txt").read_text(encoding="utf-8")


def test_what_hooks_divide_is_divided_in_a_loss_outside_the_model(references):
    runs = [references / f"{name}.h5" for name in ("own_loss", "own_loss_plain")]
    answer = run_ttrace("compare", *runs)
    assert answer.returncode == 0, answer.stdout
    assert all(("grad_output", "loss") in {key[:2] for key in grid.keys(run)} for run in runs)


def test_the_user_adds_few_lines():
    agreement.added_lines("train_deepspeed.py")
