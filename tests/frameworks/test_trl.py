"""trl's SFTTrainer and GRPOTrainer under DDP: each agrees with one process, planted faults are
found, and the training is the same with and without the callback. Skipped where trl is missing."""

from __future__ import annotations

import subprocess

import agreement
import grid
import pytest
from support.ttrace_cli import MATCH, REPOSITORY, run_ttrace

LAUNCHER = "launch_transformers.py"
SFT, GRPO = ({"script": f"train_{name}", "model": "llama"} for name in ("sft", "grpo"))
CHECKPOINTED = {**GRPO, "checkpoint": True}
REFERENCES = {
    "sft": {**SFT, "twice": True},
    "grpo": {**GRPO, "twice": True},
    "checkpointed": CHECKPOINTED,
    "pairs": {**GRPO, "each": 2},
}
CASES = {
    "sft_ddp": {**SFT, "twice": True},
    "sft_checkpointed": {**SFT, "checkpoint": True},
    "grpo_ddp": {**GRPO, "twice": True},
    "checkpointed_ddp": CHECKPOINTED,
}
UNNUMBERED = {"grpo_pairs": {**GRPO, "each": 2}}
# The case that the fault is planted in, the fault, where it diverges first, and what is said.
FAULTS = {
    "sft_no_sync": (SFT, "no_sync", "model.embed_tokens.weight · main_grad · step 0", "never aver"),
    "sft_scale": (
        SFT,
        "wrong_scale",
        "(model)[log_probs] · grad_output · step 0 · mb 0",
        "2 times",
    ),
    "sft_swapped": (SFT, "swapped", "(model) · input · step 0 · mb 0", "given other data"),
    "grpo_no_sync": (GRPO, "no_sync", "model.embed_tokens.weight · main_grad · step 0", "never av"),
    "grpo_scale": (GRPO, "wrong_scale", "loss · loss · step 0 · mb 0", "first wrong is the loss"),
    "grpo_data": (GRPO, "other_data", "(model) · input · step 0 · mb 0", "input data"),
}


@pytest.fixture(scope="module")
def trl(python):
    """The interpreter, if it has trl: scripts/frameworks_venv.sh --hunt installs it."""
    done = subprocess.run([python, "-c", "import trl"], capture_output=True, timeout=300)
    if done.returncode:
        pytest.skip(f"{python} has no trl: bash scripts/frameworks_venv.sh --hunt installs it")
    return python


@pytest.fixture(scope="module")
def references(trl, tmp_path_factory):
    noise = {
        f"{name}_noise{seed}": {**case, "twice": False, "noise": seed}
        for name, case in REFERENCES.items()
        for seed in grid.SEEDS
        if name != "pairs"
    }
    out = tmp_path_factory.mktemp("references")
    return agreement.train(trl, LAUNCHER, 1, {**REFERENCES, **noise}, out)


@pytest.fixture(scope="module")
def on_two(trl, tmp_path_factory):
    faults = {name: {**case, "fault": fault} for name, (case, fault, _, _) in FAULTS.items()}
    out = tmp_path_factory.mktemp("two")
    return agreement.train(trl, LAUNCHER, 2, {**CASES, **UNNUMBERED, **faults}, out)


def reference_of(references, name):
    """The trace on one process, and the perturbed ones."""
    model = name.split("_")[0]
    return references / f"{model}.h5", [references / f"{model}_noise{n}.h5" for n in grid.SEEDS]


@pytest.mark.parametrize("name", CASES)
def test_layouts_agree_with_one_process(name, references, on_two):
    agreement.check_agreement(name, on_two / name, *reference_of(references, name))
    assert "incomplete" not in grid.manifest(on_two / name)["run"]


def test_every_sample_of_every_step_is_recorded(on_two):
    losses = {(key[2], key[3]) for key in grid.keys(on_two / "grpo_ddp") if key[0] == "loss"}
    assert losses == {(step, sample) for step in (0, 1) for sample in range(4)}


def test_shuffled_pairs_of_samples_are_left_out(references, on_two):
    against_all = run_ttrace("compare", references / "grpo.h5", on_two / "grpo_pairs")
    assert against_all.returncode == 3, against_all.stdout
    assert "which samples share one depends on the layout" in against_all.stdout
    alike = run_ttrace("compare", references / "pairs.h5", on_two / "grpo_pairs")
    assert alike.returncode == MATCH, alike.stdout
    kinds = {key[0] for key in grid.keys(on_two / "grpo_pairs")}
    assert kinds >= {"param", "main_grad", "grad_norm", "param_after_step"}
    assert not kinds & {"input", "output", "loss", "param_grad"}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name, references, on_two):
    _, _, first, said = FAULTS[name]
    report = agreement.divergence(on_two / name, *reference_of(references, name), first)
    assert said in report


@pytest.mark.parametrize("script", ["train_sft.py", "train_grpo.py"])
def test_the_user_adds_few_lines(script):
    added = agreement.added_lines(script)
    text = (REPOSITORY / "lib" / "torch" / "docs" / "trl.md").read_text(encoding="utf-8")
    diff = text.split("```diff\n", 1)[1].split("```", 1)[0]
    assert len(added) == sum(line.startswith("+") for line in diff.splitlines()) == 3
