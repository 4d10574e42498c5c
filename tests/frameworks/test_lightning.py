"""Lightning's Trainer under DDP and FSDP2: each agrees with one process, planted faults are found,
and the training is the same with and without the callback. Skipped where Lightning is missing."""

from __future__ import annotations

import subprocess

import agreement
import grid
import pytest
from support.ttrace_cli import REPOSITORY

LAUNCHER = "launch_lightning.py"
PLAIN, DDP, FSDP2 = ({"kind": kind} for kind in ("plain", "ddp", "fsdp2"))
CLIPPED = {"clip": 0.5}
REFERENCES = {"plain": {**PLAIN, "twice": True}, "clipped": {**PLAIN, **CLIPPED}}
CASES = {
    "plain_ddp": {**DDP, "twice": True},
    "plain_fsdp2": {**FSDP2, "twice": True},
    "clipped_ddp": {**DDP, **CLIPPED},
    "clipped_fsdp2": {**FSDP2, **CLIPPED, "twice": True},
}
# The case that the fault is planted in, the fault, where it diverges first, and what is said.
FAULTS = {
    "no_sync": (
        DDP,
        "no_sync",
        "gpt.embedding.weight · main_grad · step 0",
        "missing_reduction over dp: the mean of the copies is the reference",
    ),
    "wrong_scale": (
        DDP,
        "wrong_scale",
        "(model)[loss] · output · step 0 · mb 0",
        "first wrong is the output of (model)[loss]",
    ),
    "swapped": (FSDP2, "swapped", "(model) · input · step 0 · mb 0", "other data"),
    "clipped_by_more": (
        {**FSDP2, "clip": 0.25},
        "",
        "clip_norm of 52 parameters",
        "clip_norm is 0.25 instead of 0.5",
    ),
}
REFUSED = {
    "by_hand": {**PLAIN, "by_hand": True, "refused": True},
}


@pytest.fixture(scope="module")
def lightning(python):
    """The interpreter, if it has Lightning: scripts/frameworks_venv.sh does not install it."""
    done = subprocess.run([python, "-c", "import lightning"], capture_output=True, timeout=300)
    if done.returncode:
        pytest.skip(f"{python} has no lightning: {python} -m pip install lightning==2.6.6")
    return python


@pytest.fixture(scope="module")
def references(lightning, tmp_path_factory):
    noise = {
        f"{name}_noise{seed}": {**case, "twice": False, "noise": seed}
        for name, case in REFERENCES.items()
        for seed in (1, 2, 3)
    }
    out = tmp_path_factory.mktemp("references")
    return agreement.train(lightning, LAUNCHER, 1, {**REFERENCES, **noise, **REFUSED}, out)


@pytest.fixture(scope="module")
def on_two(lightning, tmp_path_factory):
    faults = {
        name: agreement.first_step({**case, "fault": fault})
        for name, (case, fault, _, _) in FAULTS.items()
    }
    out = tmp_path_factory.mktemp("two")
    return agreement.train(lightning, LAUNCHER, 2, {**CASES, **faults}, out)


def reference_of(references, name):
    """The trace on one process, and the perturbed ones."""
    model = name.split("_")[0]
    return references / f"{model}.h5", [references / f"{model}_noise{n}.h5" for n in (1, 2, 3)]


@pytest.mark.parametrize("name", CASES)
def test_layouts_agree_with_one_process(name, references, on_two):
    agreement.check_agreement(name, on_two / name, *reference_of(references, name))
    run = grid.manifest(on_two / name)["run"]
    assert "incomplete" not in run and run["model"] == "Gpt"


def test_every_micro_batch_of_every_step_is_recorded(references, on_two):
    keys = grid.keys(on_two / "clipped_ddp")
    assert keys == grid.keys(on_two / "clipped_fsdp2") == grid.keys(references / "clipped.h5")
    kinds = {key[0] for key in keys}
    assert kinds >= {"param", "main_grad", "param_after_step", "param_grad", "loss", "output"}
    assert {(key[2], key[3]) for key in keys if key[0] == "loss"} == {
        (step, number) for step in (0, 1) for number in range(4)
    }


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name, references, on_two):
    _, _, first, said = FAULTS[name]
    compared = reference_of(references, "clipped" if "clipped" in name else "plain")
    report = agreement.divergence(on_two / name, *compared, first)
    assert said in report


def test_optimization_by_hand_is_refused(references):
    said = (references / "by_hand.txt").read_text(encoding="utf-8")
    assert said.startswith("Gpt.automatic_optimization is False: its training_step makes the")


def test_the_user_adds_few_lines():
    added = agreement.added_lines("train_lightning.py")
    text = (REPOSITORY / "lib" / "torch" / "docs" / "lightning.md").read_text(encoding="utf-8")
    diff = text.split("```diff\n", 1)[1].split("```", 1)[0]
    assert len(added) == sum(line.startswith("+") for line in diff.splitlines()) == 3
