"""Specifications of real models: every recorded tensor follows from others."""

from __future__ import annotations

import json

import pytest
from megatron_cases import NEWEST
from support.evaluate_specification import Evaluation
from support.python_runs import run_python
from support.ttrace_cli import REPOSITORY

HERE = REPOSITORY / "tests" / "frameworks"
MODELS = ("llama", "qwen3", "gemma3_text", "gpt2")
# In epsilons; measured 2.7 and 2.0.
LIMITS = {"float32": 5.0, "bfloat16": 3.0}


@pytest.fixture(scope="module")
def transformers(python, tmp_path_factory):
    out = tmp_path_factory.mktemp("specified")
    done = run_python(
        [HERE / "specify_transformers.py", out],
        python=python,
        timeout=900,
        environment={"PYTHONPATH": str(REPOSITORY / "lib" / "torch")},
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
def test_megatron(megatron, model, limit):
    runs = megatron.train(NEWEST)
    specification = json.loads((runs / f"{model}.json").read_text())
    assert "opaque" not in specification
    assert specification["after_backward"] == {"main_grad": {"combine": "sum", "factor": 1.0}}
    check(specification, runs / f"{model}.h5", limit, range(4))
