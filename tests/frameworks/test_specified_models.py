"""Specifications of real models: every recorded tensor follows from others."""

from __future__ import annotations

import json
import os
import subprocess

import agreement
import megatron_cases
import pytest
from support.evaluate_specification import Evaluation
from support.ttrace_cli import REPOSITORY

HERE = REPOSITORY / "tests" / "frameworks"
MODELS = ("llama", "qwen3", "gemma3_text", "gpt2")
# In epsilons; measured 2.7 and 2.0.
LIMITS = {"float32": 5.0, "bfloat16": 3.0}


@pytest.fixture(scope="module")
def transformers(python, tmp_path_factory):
    out = tmp_path_factory.mktemp("specified")
    done = subprocess.run(
        [python, HERE / "specify_transformers.py", out],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "lib" / "torch")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def check(specification, trace, limit, microbatches=(0,)):
    """Every tensor is judged and within the limit."""
    for microbatch in microbatches:
        evaluation = Evaluation(specification, trace, microbatch=microbatch)
        judgements = evaluation.judge_all()
        errors = {one.key: one.error for one in judgements if one.error is not None}
        assert evaluation.coverage(judgements) >= 0.95
        assert max(errors.values()) < limit, max(errors, key=errors.get)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("model", MODELS)
def test_transformers(transformers, model, dtype):
    path = transformers / f"{model}_{dtype}"
    specification = json.loads(path.with_suffix(".json").read_text())
    assert "opaque" not in specification
    assert specification["precision"] == dtype
    check(specification, path.with_suffix(".h5"), LIMITS[dtype])


@pytest.mark.parametrize(("model", "limit"), [("modern", 5.0), ("half", 3.0)])
def test_megatron(python, tmp_path, model, limit):
    path = tmp_path / "specification.json"
    case = {model: megatron_cases.references([model], ())[model]}
    variables = {"TTRACE_SPECIFICATION": str(path)}
    agreement.train(python, "launch_megatron.py", 1, case, tmp_path / "run", (), variables)
    specification = json.loads(path.read_text())
    assert "opaque" not in specification
    assert specification["after_backward"] == {"main_grad": {"combine": "sum", "factor": 1.0}}
    check(specification, tmp_path / "run" / f"{model}.h5", limit, range(4))
