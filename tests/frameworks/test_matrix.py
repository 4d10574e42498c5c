"""Matrices of a model of transformers, which needs no function for tensors, sequence and stages."""

from __future__ import annotations

from pathlib import Path

import grid
import pytest
from support.python_runs import run_python
from support.ttrace_cli import REPOSITORY, ttrace_binary

JOB = Path(__file__).with_name("matrix_llama.py")
NOISE = ("--noise", str(len(grid.SEEDS)))
LAYOUTS = grid.cases(
    "a Llama's layouts",
    dict.fromkeys(("fsdp2", "tp2+sp", "pp2:1f1b")),
    {"fsdp2+tp2": None},
)
NOT_CUT = grid.cases("models that are not cut into stages", {}, {"granite": "pp2:gpipe"})


@pytest.fixture(scope="module")
def matrix(python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    environment = {
        "TTRACE": str(ttrace_binary()),
        "PYTHONPATH": str(REPOSITORY / "lib" / "torch"),
        "TMPDIR": str(folder),
    }

    def run(job, *layouts):
        command = ["-m", "ttrace_torch.matrix", job, "--cache", folder / "cache", *NOISE]
        return run_python(
            [*command, "--layouts", *layouts],
            python=python,
            timeout=600,
            environment=environment,
        )

    return run


def test_every_layout_of_a_llama_agrees(matrix):
    done = matrix(JOB, *LAYOUTS)
    assert done.returncode == 0, done.stdout + done.stderr
    first, _, *rows = done.stdout.splitlines()
    assert first.startswith(
        f"MATCH  {len(LAYOUTS)} layouts agree with one process and hold by themselves; the"
    )
    assert [row.split()[:3] for row in rows[: len(LAYOUTS)]] == [
        [w, "match", "holds"] for w in LAYOUTS
    ]


def test_a_fault_is_found_in_the_layouts_that_have_it(matrix):
    done = matrix(f"{JOB}:doubled", "fsdp2", "tp2")
    assert done.returncode == 1, done.stdout + done.stderr
    first, _, *rows = done.stdout.splitlines()
    assert first.startswith("DIVERGED  tp2 (1 of 2 layouts): ")
    assert "layers.1.mlp.down_proj" in first
    assert [row.split()[:2] for row in rows[:2]] == [["fsdp2", "match"], ["tp2", "diverged"]]


def test_a_tied_head_is_not_cut_apart(matrix):
    done = matrix(f"{JOB}:tied", "tp2+sp", "pp2:1f1b")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "it cannot be added: lm_head is tied to model.embed_tokens; give parallelize=" in (
        done.stdout
    )
    assert "pipeline: the head of LlamaForCausalLM is tied to its embedding" in done.stdout


@pytest.mark.parametrize("name", NOT_CUT)
def test_a_model_that_computes_between_its_parts_is_not_cut_into_stages(matrix, name):
    done = matrix(f"{JOB}:{name}", NOT_CUT[name])
    assert done.returncode == 2, done.stdout + done.stderr
    assert "pipeline: GraniteForCausalLM does more than run its embedding, layers" in done.stdout
