"""torchtitan's Trainer with its default backend: FSDP2 agrees with one process, a planted fault is
found, and the training is the same with and without the callback. Skipped where it is missing."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import agreement
import grid
import pytest
from support.ttrace_cli import REPOSITORY

import ttrace_torch as tt
from ttrace_torch.torchtitan import Callback, model_of

LAUNCHER = "launch_transformers.py"
PLAIN = {"script": "train_torchtitan"}


@pytest.fixture(scope="module")
def torchtitan(python):
    """The interpreter, if it has torchtitan, which asks for torch 2.15."""
    asked = [python, "-c", "import torchtitan.trainer"]
    if subprocess.run(asked, capture_output=True, timeout=300).returncode:
        pytest.skip("torchtitan needs torch 2.15: scripts/releases.sh torchtitan trains it")
    return python


@pytest.fixture(scope="module")
def references(torchtitan, tmp_path_factory):
    noise = {f"noise{seed}": {**PLAIN, "noise": seed} for seed in (1, 2, 3)}
    cases = {"plain": {**PLAIN, "twice": True}, **noise}
    out = tmp_path_factory.mktemp("one")
    agreement.train(torchtitan, LAUNCHER, 1, cases, out)
    return out / "plain.h5", [out / f"{name}.h5" for name in noise]


def trained(python, case, tmp_path):
    """The trace of two ranks. Its default backend lets a process build one Trainer alone."""
    return agreement.train(python, LAUNCHER, 2, {"run": case}, tmp_path / "two") / "run"


def test_fsdp_agrees_with_one_process(torchtitan, references, tmp_path):
    run = trained(torchtitan, PLAIN, tmp_path)
    agreement.check_agreement("torchtitan_fsdp", run, *references)
    assert "incomplete" not in grid.manifest(run)["run"]


def test_a_planted_fault_is_found(torchtitan, references, tmp_path):
    case = agreement.first_step({**PLAIN, "fault": "swapped"})
    run = trained(torchtitan, case, tmp_path)
    agreement.divergence(run, *references, "(model) · input · step 0 · mb 0")


def test_a_trainer_that_is_not_built_is_refused():
    with pytest.raises(tt.TraceError, match="SimpleNamespace has no model yet"):
        model_of(SimpleNamespace())


def test_a_release_without_a_loss_trains_on_without_it(tmp_path):
    import torch

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(_):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    trainer = SimpleNamespace(
        config=None,
        parallel_dims=None,
        model_parts=[model],
        optimizers=[optimizer],
        step=1,
        train_step=train_step,
        close=lambda: None,
    )
    Callback(trainer, out=tmp_path / "run.h5")
    trainer.train_step(iter(()))
    trainer.close()
    kinds = {key[0] for key in grid.keys(tmp_path / "run.h5")}
    assert kinds >= {"param", "output", "main_grad", "param_after_step"} and "loss" not in kinds


def test_the_user_adds_few_lines():
    added = agreement.added_lines("train_torchtitan.py")
    text = (REPOSITORY / "lib" / "torch" / "docs" / "torchtitan.md").read_text(encoding="utf-8")
    diff = text.split("```diff\n", 1)[1].split("```", 1)[0]
    assert len(added) == sum(line.startswith("+") for line in diff.splitlines()) == 4
