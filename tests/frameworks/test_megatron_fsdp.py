"""megatron-fsdp with ZeRO 0 to 3: each agrees with one process, planted faults and a bug of its own
are found, and the training is the same with and without a tracer. Skipped where it is missing."""

from __future__ import annotations

import subprocess

import agreement
import grid
import pytest
from support.ttrace_cli import REPOSITORY

LAUNCHER = "launch_megatron_fsdp.py"
REFERENCE = {"zero": 0, "twice": True}
CASES = {
    **{f"zero{zero}": {"zero": zero, "twice": True} for zero in range(4)},
    # These reduce gradients into a buffer of their own.
    **{f"zero{zero}_each": {"zero": zero, "each": True} for zero in (2, 3)},
    "zero3_summed": {"zero": 3, "settings": {"calculate_per_token_loss": True}},
}
# The case that the fault is planted in, where it diverges first, and what is said.
FAULTS = {
    **{
        f"zero{zero}_{fault}": ({"zero": zero, "fault": fault}, first, said)
        for zero in (0, 3)
        for fault, first, said in (
            ("swapped", "(model) · input · step 0 · mb 0", "are 1, 0, 3 and 2"),
            ("wrong_scale", "loss · grad_output · step 0 · mb 0", "2 times"),
            ("wrong_shard", "layers.1.feed_forward.w1.weight · param · step 0", "21/20 times"),
        )
    },
    # tests/frameworks/found/megatron_fsdp_reduced_again.py
    "reduced_again": (
        {"zero": 1, "each": True},
        "embedding.weight · main_grad · step 0",
        "the gradients of all 52 parameters are another sum of the raw gradients",
    ),
}


@pytest.fixture(scope="module")
def megatron_fsdp(python):
    """The interpreter, if it has megatron-fsdp: scripts/frameworks_venv.sh does not install it."""
    done = subprocess.run([python, "-c", "import megatron_fsdp"], capture_output=True, timeout=300)
    if done.returncode:
        pytest.skip(f"{python} -m pip install --no-deps megatron-fsdp==0.6.1")
    return python


@pytest.fixture(scope="module")
def references(megatron_fsdp, tmp_path_factory):
    noise = {f"noise{n}": {**REFERENCE, "twice": False, "noise": n} for n in (1, 2, 3)}
    out = tmp_path_factory.mktemp("references")
    return agreement.train(megatron_fsdp, LAUNCHER, 1, {"whole": REFERENCE, **noise}, out)


@pytest.fixture(scope="module")
def on_two(megatron_fsdp, tmp_path_factory):
    faults = {name: case for name, (case, _, _) in FAULTS.items()}
    out = tmp_path_factory.mktemp("two")
    return agreement.train(megatron_fsdp, LAUNCHER, 2, {**CASES, **faults}, out)


def reference_of(references):
    """The trace on one process, and the perturbed ones."""
    return references / "whole.h5", [references / f"noise{n}.h5" for n in (1, 2, 3)]


@pytest.mark.parametrize("name", CASES)
def test_layouts_agree_with_one_process(name, references, on_two):
    agreement.check_agreement(name, on_two / name, *reference_of(references))
    run = grid.manifest(on_two / name)["run"]
    assert "incomplete" not in run and run["model"] == "GPT"


def test_a_rank_may_hold_more_than_the_other(on_two):
    state = agreement.entry_of(on_two / "zero3", "optimizer_state", "output.weight.exp_avg")
    assert state["placements"] == {"dp": {"flat": [[0, 32], [32, 2048]]}}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name, references, on_two):
    _, first, said = FAULTS[name]
    report = agreement.divergence(on_two / name, *reference_of(references), first)
    assert said in " ".join(report.split())


def test_the_user_adds_few_lines():
    added = agreement.added_lines("train_megatron_fsdp.py")
    text = (REPOSITORY / "lib" / "torch" / "docs" / "megatron_fsdp.md").read_text(encoding="utf-8")
    diff = text.split("```diff\n", 1)[1].split("```", 1)[0]
    assert len(added) == sum(line.startswith("+") for line in diff.splitlines()) == 6
