"""Megatron-core on the CPU: one script, traced on one process and in every layout, must agree.

The training runs in an environment of its own, which scripts/frameworks_venv.sh makes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import h5py
import pytest
from support.ttrace_cli import DIVERGED, MATCH, REPOSITORY, run_ttrace

HERE = Path(__file__).parent

TP2 = {"tensor_model_parallel_size": 2}
PP2 = {"pipeline_model_parallel_size": 2}
EP2 = {"expert_model_parallel_size": 2}
SP = {"sequence_parallel": True}
# Rotary positions, gated layers, grouped queries, norms of queries and keys, a head of its own.
MODERN = {"tied": False, "positions": "rope"}
MODERN_CONFIG = {
    "gated_linear_unit": True,
    "add_bias_linear": False,
    "num_query_groups": 2,
    "qk_layernorm": True,
    "normalization": "RMSNorm",
}
EXPERTS = {
    "num_moe_experts": 4,
    "moe_router_topk": 2,
    "moe_token_dispatcher_type": "alltoall",
    "moe_aux_loss_coeff": 0.0,
    "add_bias_linear": False,
}
# With the default, virtual stages on two ranks take each other's messages and compute nonsense.
VIRTUAL = {"virtual_pipeline_model_parallel_size": 2}
ZERO = {"distributed_optimizer": True}


def model(kind, **config):
    """A case's model: the configuration, and what is no part of it."""
    base = {"plain": {}, "modern": MODERN_CONFIG, "experts": EXPERTS}[kind]
    return {"config": {**base, **config}, **(MODERN if kind == "modern" else {})}


REFERENCES = {kind: model(kind) for kind in ("plain", "modern", "experts")}
NOISE = {
    f"{kind}_noise{seed}": {**model(kind), "noise": seed}
    for kind in ("plain", "modern", "experts")
    for seed in (1, 2, 3)
}
CASES = {
    "plain_tp2": {"parallel": TP2, **model("plain")},
    "plain_tp2_sp": {"parallel": TP2, **model("plain", **SP)},
    "plain_dp2": model("plain"),
    "plain_dp2_zero": {**ZERO, **model("plain")},
    "plain_pp2": {"parallel": PP2, **model("plain")},
    "plain_pp2_vpp2": {
        "parallel": {**PP2, **VIRTUAL},
        **model("plain", **VIRTUAL, batch_p2p_comm=False),
    },
    "modern_tp2": {"parallel": TP2, **model("modern")},
    "modern_tp2_sp": {"parallel": TP2, **model("modern", **SP)},
    "modern_pp2": {"parallel": PP2, **model("modern")},
    "experts_ep2": {"parallel": EP2, **model("experts")},
    "experts_ep2_zero": {"parallel": EP2, **ZERO, **model("experts")},
    "experts_tp2_sp": {"parallel": TP2, **model("experts", **SP)},
}
CASES_OF_4 = {
    "plain_tp2_pp2_sp": {"parallel": {**TP2, **PP2}, **model("plain", **SP)},
    "plain_tp2_dp2_zero": {"parallel": TP2, **ZERO, **model("plain")},
    "plain_pp2_dp2": {"parallel": PP2, **model("plain")},
}
FAULTS = {
    "faulty_norms": {"parallel": TP2, "fault": "norms_not_summed", **model("plain", **SP)},
}


@pytest.fixture(scope="session")
def python():
    """The interpreter that has the frameworks."""
    done = subprocess.run(
        [REPOSITORY / "scripts" / "frameworks_venv.sh"],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def train(python, world, cases, out):
    """Trains all the cases in one go: importing the frameworks takes most of the time."""
    done = subprocess.run(
        [python, HERE / "launch.py", str(world), json.dumps(cases), out],
        capture_output=True,
        text=True,
        timeout=1800,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "lib" / "torch"), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def references(python, tmp_path_factory):
    return train(python, 1, {**REFERENCES, **NOISE}, tmp_path_factory.mktemp("references"))


@pytest.fixture(scope="module")
def on_two(python, tmp_path_factory):
    return train(python, 2, {**CASES, **FAULTS}, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def on_four(python, tmp_path_factory):
    return train(python, 4, CASES_OF_4, tmp_path_factory.mktemp("four"))


def manifest(path):
    if path.is_dir():
        return json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    with h5py.File(path, "r") as file:
        return json.loads(file["manifest"][()])


def keys(path):
    """Keys of all tensors; what is recorded summed over micro-batches counts for each of them."""
    found = set()
    for entry in manifest(path)["tensors"]:
        together = entry.get("microbatches", {}).get("sum", [entry.get("microbatch")])
        for number in together:
            key = (entry["kind"], entry["name"], entry["step"], number, entry.get("call", 0))
            assert key not in found
            found.add(key)
    return found


def noise_of(references, name):
    return [references / f"{name.split('_')[0]}_noise{seed}.h5" for seed in (1, 2, 3)]


@pytest.mark.parametrize("name", [*CASES, *CASES_OF_4])
def test_layouts_agree_with_one_process(name, references, request):
    out = request.getfixturevalue("on_two" if name in CASES else "on_four") / name
    reference = references / f"{name.split('_')[0]}.h5"
    linted = run_ttrace("lint", out)
    assert linted.returncode == MATCH and linted.stdout.startswith("CLEAN"), linted.stdout
    compared = run_ttrace("compare", reference, out, "--noise", *noise_of(references, name))
    assert compared.returncode == MATCH, compared.stdout + compared.stderr
    assert compared.stdout.startswith("MATCH"), compared.stdout
    assert keys(out) == keys(reference)
    assert manifest(out)["run"]["framework"] == "Megatron-core 0.16.1"


def test_all_kinds_are_recorded(references):
    counts = Counter(key[0] for key in keys(references / "plain.h5"))
    # The embeddings and the last norm; in a layer two norms and four linears with their biases.
    layers, steps, batches = 4, 2, 4
    parameters = 2 + 12 * layers + 2
    assert counts["param"] == counts["main_grad"] == counts["param_after_step"]
    assert counts["param"] == steps * parameters
    assert counts["param_grad"] == steps * batches * parameters
    assert counts["loss"] == steps * batches
    assert counts["grad_norm"] == steps
    for kind in ("input", "output", "grad_output"):
        assert counts[kind] > steps * batches * layers * 10


@pytest.mark.parametrize("name", ["plain_tp2_sp", "plain_dp2_zero", "plain_tp2_dp2_zero"])
def test_what_the_optimizer_was_told(name, references, request):
    out = request.getfixturevalue("on_two" if name in CASES else "on_four") / name

    def told(path):
        entries = manifest(path)["optimizer"]
        return {
            (entry["step"], parameter): {k: v for k, v in entry.items() if k != "params"}
            for entry in entries
            for parameter in entry["params"]
        }

    expected = told(references / "plain.h5")
    assert told(out) == expected
    assert {entry["type"] for entry in expected.values()} == {"adamw"}
    assert {entry["clip_norm"] for entry in expected.values()} == {1.0}
    # Without a scheduler, which would spare biases and norms, all parameters decay.
    assert {entry["weight_decay"] for entry in expected.values()} == {0.1}


def test_distributed_optimizer_is_described_by_ranges(on_four):
    tensors = manifest(on_four / "plain_tp2_dp2_zero")["tensors"]
    weight = "decoder.layers.1.mlp.linear_fc1.weight"
    (entry,) = [
        entry
        for entry in tensors
        if (entry["kind"], entry["name"], entry["step"]) == ("main_grad", weight, 0)
    ]
    assert entry["shape"] == [128, 32]
    assert entry["placements"]["tp"] == {"shard": 0}
    (first, middle), (again, last) = entry["placements"]["dp"]["flat"]
    assert (first, again, last) == (0, middle, 64 * 32)


def test_lost_reduction_of_norms_is_named(on_two, references):
    out = on_two / "faulty_norms"
    assert run_ttrace("lint", out).returncode == MATCH
    done = run_ttrace("compare", references / "plain.h5", out)
    assert done.returncode == DIVERGED
    first = done.stdout.splitlines()[0]
    assert "first at decoder.layers.0.input_layernorm.weight · main_grad · step 0" in first
    assert "missing_reduction over tp: the sum of the copies is the reference" in done.stdout


def test_the_user_adds_few_lines():
    script = (HERE / "train_gpt.py").read_text(encoding="utf-8")
    code = script.split('"""', 2)[2].splitlines()
    added = [line for line in code if line.endswith("# tt")]
    assert 0 < len(added) < 10
    assert added == [line for line in code if "trace" in line or "tt." in line]
