"""Rewritten runs of real frameworks: the same inputs to the bit, and a fault stays where it is.

The scripts are the ones that the other tests train; the plan comes by the environment.
"""

from __future__ import annotations

import json

import agreement
import grid
import megatron_cases
import pytest
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace

RECEIVED = {"inputs": {"std": 0.7, "mean": 0.1}, "grad_outputs": {"std": 0.002}}
TP = {"kind": "tp", "axes": {"tp": 2}, "layers": 2}
TORCH = grid.cases(
    "layouts that are rewritten",
    {
        "tp_sequence": {**TP, "sequence": True},
        # The second step begins with updates by wrong gradients.
        "doubled": agreement.first_step({**TP, "sequence": True, "fault": "doubled"}),
    },
    {"tp": TP},
)
MEGATRON = {
    "tp2": megatron_cases.case("plain", megatron_cases.TP2),
    "tp2_sp": megatron_cases.case("plain", megatron_cases.TP2, **megatron_cases.SP),
}
# Launcher, case on one process, cases on two, the modules that are rewritten.
JOBS = grid.cases(
    "rewriting",
    {"torch": ("launch_torch.py", {"kind": "plain", "layers": 2}, TORCH, "layers.*")},
    {
        "megatron": (
            "launch_megatron.py",
            megatron_cases.case("plain"),
            MEGATRON,
            "decoder.layers.*",
        )
    },
)


@pytest.fixture(scope="module")
def rewritten(python, tmp_path_factory):
    """Job -> folder with the reference `one.h5` and the runs on two processes."""
    trained = {}

    def train(job):
        if job not in trained:
            launcher, one, two, modules = JOBS[job]
            out = tmp_path_factory.mktemp(job)
            plan = {
                "schema": "ttrace.plan/1",
                "seed": 3,
                "modules": [{"name": modules, **RECEIVED}],
            }
            (out / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
            variables = {"TTRACE_PLAN": str(out / "plan.json")}
            worlds = {1: {"one": one}, 2: two}
            agreement.train_worlds(python, launcher, worlds, out, variables=variables)
            trained[job] = out
        return trained[job]

    return train


def rewritten_values(trace, out, job):
    """The inputs that the plan has overwritten, whole."""
    prefix = JOBS[job][3]
    return agreement.merged_values(trace, out, "--kind", "input", "--only", prefix)


@pytest.mark.parametrize(
    ("job", "case"),
    [(job, case) for job, (_, _, two, _) in JOBS.items() for case in two if case != "doubled"],
)
def test_modules_get_the_same_inputs_and_return_the_same(job, case, rewritten, tmp_path):
    out = rewritten(job)
    expected = rewritten_values(out / "one.h5", tmp_path / "one.h5", job)
    assert rewritten_values(out / case, tmp_path / "two.h5", job) == expected
    assert len(expected) > 2 * 4 * 2 * 5
    done = run_ttrace("compare", out / "one.h5", out / case)
    assert done.returncode == MATCH, done.stdout
    assert grid.keys(out / case) == grid.keys(out / "one.h5")


def test_a_fault_stays_in_its_module(rewritten, tmp_path):
    out = rewritten("torch")
    report = tmp_path / "report.json"
    done = run_ttrace(
        "compare", out / "one.h5", out / "doubled", "--step", "0", "--json", str(report)
    )
    assert done.returncode == DIVERGED, done.stdout
    wrong = {
        (result["key"]["kind"], result["key"]["name"])
        for result in json.loads(report.read_text(encoding="utf-8"))["results"]
        if result["outcome"] == "diverged"
    }
    inside = "layers.0.feed_forward"
    # What holds it returns what it returned; the norm and the update are of all gradients.
    assert {key for key in wrong if key[0] not in ("grad_norm", "param_after_step")} == {
        ("output", "layers.0"),
        ("output", inside),
        ("output", f"{inside}.w2"),
        ("param_grad", f"{inside}.w2.weight"),
        ("param_grad", f"{inside}.w2.bias"),
        ("main_grad", f"{inside}.w2.weight"),
        ("main_grad", f"{inside}.w2.bias"),
    }
