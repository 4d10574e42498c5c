"""torchtitan's Trainer with each of its backends: layouts agree with one process, a planted fault
is found, and the training is the same with and without the callback.

Skipped where it is missing; pytest of an environment that has torchtitan 0.3 takes that.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import agreement
import grid
import pytest
from support.python_runs import run_python
from support.ttrace_cli import DIVERGED, MATCH, REPOSITORY, run_ttrace, ttrace_binary

import ttrace_torch as tt
from ttrace_torch.torchtitan import Callback, model_of

LAUNCHER = "launch_transformers.py"
PLAIN = {"script": "train_torchtitan"}
BACKENDS = ("spmd_types", "partial_dtensor", "full_dtensor")
_TWO_DP, _TWO_TP = {"data_parallel_shard": 2}, {"tensor_parallel": 2}
# Name -> ranks, those of data parallelism, and case.
LAYOUTS = {
    "dp": (2, 2, {}),
    "hsdp": (4, 4, {"degrees": {**_TWO_DP, "data_parallel_replicate": 2}}),
    "tp": (2, 1, {"degrees": _TWO_TP}),
    "tp_dp": (4, 2, {"degrees": {**_TWO_TP, **_TWO_DP}}),
    "pp": (2, 1, {"local": 4, "degrees": {"pipeline_parallel": 2}}),
    "pp_dp": (4, 2, {"local": 2, "degrees": {"pipeline_parallel": 2, **_TWO_DP}}),
}
MATRIX = Path(__file__).with_name("matrix_titan.py")
MATRIX_LAYOUTS = ["ddp2", "fsdp4", "fsdp2+tp2", "tp2+sp", "pp2:1f1b", "pp2:interleaved"]
TOLD = (
    "param",
    "main_grad",
    "grad_norm",
    "optimizer_state",
    "param_after_step",
    "loss",
    "scalar",
)


@pytest.fixture(scope="module")
def torchtitan(request):
    """An interpreter that has torchtitan, which asks for torch 2.15: this one, or that of the
    frameworks."""
    if importlib.util.find_spec("torchtitan"):
        return sys.executable
    python = request.getfixturevalue("python")
    asked = [python, "-c", "import torchtitan.trainer"]
    if subprocess.run(asked, capture_output=True, timeout=300).returncode:
        pytest.skip("torchtitan needs torch 2.15: scripts/releases.sh torchtitan trains it")
    return python


@pytest.fixture(scope="module")
def reference(torchtitan, tmp_path_factory):
    """A function: rows in a micro-batch -> a reference and its noise runs."""

    @functools.cache
    def made(rows):
        case = {**PLAIN, "local": rows}
        noise = {f"noise{seed}": {**case, "noise": seed} for seed in (1, 2)}
        out = tmp_path_factory.mktemp("one")
        cases = {"plain": {**case, "twice": True}, **noise}
        agreement.train(torchtitan, LAUNCHER, 1, cases, out)
        return out / "plain.h5", [out / f"{name}.h5" for name in noise]

    return made


def trained(python, world, case, tmp_path):
    """The trace of `world` ranks. The default backend lets a process build one Trainer alone."""
    return agreement.train(python, LAUNCHER, world, {"run": case}, tmp_path / "ranks") / "run"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_layout_agrees_with_one_process(torchtitan, reference, tmp_path, backend, layout):
    world, sharing, case = LAYOUTS[layout]
    run = trained(torchtitan, world, {**PLAIN, **case, "backend": backend}, tmp_path)
    if backend == "spmd_types" and layout.startswith("tp"):
        # Nothing tells how activations are cut.
        plain, noise = reference(1)
        done = run_ttrace("compare", plain, run, "--kind", *TOLD, "--noise", *noise)
        assert done.returncode == MATCH and done.stdout.startswith("MATCH"), done.stdout
        assert {key[0] for key in grid.keys(run)} == set(TOLD)
    else:
        # A micro-batch of full DTensors is that of all data-parallel ranks.
        rows = sharing if backend == "full_dtensor" else 1
        agreement.check_agreement(f"torchtitan_{backend}_{layout}", run, *reference(rows))
        assert "incomplete" not in grid.manifest(run)["run"]


def test_a_planted_fault_is_found(torchtitan, reference, tmp_path):
    case = agreement.first_step({**PLAIN, "fault": "swapped"})
    run = trained(torchtitan, 2, case, tmp_path)
    agreement.divergence(run, *reference(1), "(model) · input · step 0 · mb 0")


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


def matrix(torchtitan, tmp_path, job, *layouts):
    """What `python -m ttrace_torch.matrix` prints, and its exit code."""
    done = run_python(
        ["-m", "ttrace_torch.matrix", job, "--noise", "1", "--layouts", *layouts],
        python=torchtitan,
        timeout=900,
        environment={
            "TTRACE": str(ttrace_binary()),
            "PYTHONPATH": str(REPOSITORY / "lib" / "torch"),
            "TMPDIR": str(tmp_path),
        },
    )
    return done.returncode, done.stdout + done.stderr


def test_a_matrix_of_layouts(torchtitan, tmp_path):
    code, text = matrix(torchtitan, tmp_path, MATRIX, *MATRIX_LAYOUTS)
    assert (code, text.split(" by themselves")[0]) == (
        MATCH,
        "MATCH  6 layouts agree with one process and hold",
    ), text


def test_a_matrix_finds_a_factor_on_gradients(torchtitan, tmp_path):
    code, text = matrix(torchtitan, tmp_path, f"{MATRIX}:halved", "fsdp2")
    assert code == DIVERGED and text.startswith("DIVERGED  fsdp2 (1 of 1 layout): "), text
    assert "1/2" in text.splitlines()[0], text
