"""Some architectures of the zoo: healthy they hold, and their fault is found where it is."""

from __future__ import annotations

import os
import subprocess

import pytest
from power.store import Store
from support.python_runs import run_python
from support.ttrace_cli import REPOSITORY, ttrace_binary

# Architecture -> how many of its tensors are not judged, each for the reason that is given.
ARCHITECTURES = {
    "gpt2/clm": 0,
    "gpt_neox/clm": 0,  # two biases with one gradient
    "deepseek_v3/clm": 0,  # keys that are written in parts into empty memory, and experts
    "qwen2_moe/clm": 0,  # experts whose tokens are sorted and counted
    "rwkv/clm": 0,  # a state that is written token by token
    "t5/s2s": 0,
    "squeezebert/mlm": 0,  # grouped convolutions
    "convnext/img": 0,  # depthwise convolutions
    "resnet/img": 0,  # strides, batch norm, pooling
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The study on these architectures, in the environment that has transformers."""
    raw = tmp_path_factory.mktemp("zoo") / "raw.jsonl"
    made = subprocess.run(
        [REPOSITORY / "scripts" / "frameworks_venv.sh"],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    only = [word for name in ARCHITECTURES for word in ("--only", name)]
    paths = [str(REPOSITORY / "lib" / "torch"), str(REPOSITORY / "tests")]
    done = run_python(
        ["-m", "zoo.study", raw, *only, "--write", raw.with_suffix(".md")],
        python=made.stdout.strip(),
        timeout=900,
        environment={
            "PYTHONPATH": os.pathsep.join(paths),
            "TTRACE": str(ttrace_binary()),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# The zoo" in raw.with_suffix(".md").read_text(encoding="utf-8")
    return Store(raw)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_healthy_architecture_holds(store, name):
    record = store.records[f"healthy/{name}"]
    assert record["state"] == "ran", record
    assert record["exit_code"] == 0, record
    coverage = record["coverage"]
    assert coverage["tensors"] - coverage["judged"] == ARCHITECTURES[name], record
    assert not coverage["not_judged"], record


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_its_fault_is_found_where_it_is(store, name):
    record = store.records[f"faulty/{name}"]
    assert record["state"] == "ran", record
    assert record["moves"] is None or record["moves"] >= 4, record
    assert record["exit_code"] == 1, record
    assert record["module"] in record["findings"][0], record
