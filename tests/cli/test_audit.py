"""ttrace audit: a run judged by its specification, without a reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.reports import read_report
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA, UNUSABLE

from .conftest import Run
from .small_traces import check_refused

SPECIFICATION = TESTDATA / "specification.json"
TENSORS = 202


def audited(ttrace: Run, tmp_path: Path, *arguments: str | Path) -> tuple[Any, dict[str, Any]]:
    out = tmp_path / "audit.json"
    done = ttrace("audit", *arguments, "--json", out)
    report = read_report(out)
    assert report["exit_code"] == done.returncode
    counts = report["coverage"]
    outcomes = [result["outcome"] for result in report["results"]]
    assert counts["judged"] == outcomes.count("holds") + outcomes.count("broken")
    assert sum(counts["not_judged"].values()) == outcomes.count("not_judged")
    for outcome in ("below_bound", "zero_within_rounding"):
        assert counts.get(outcome, 0) == outcomes.count(outcome)
    apart = outcomes.count("given") + outcomes.count("zero_within_rounding")
    assert counts["tensors"] == len(outcomes) - apart + sum(counts.get("lacking", {}).values())
    return done, report


@pytest.mark.parametrize("run", ["ref.h5", "tp2sp", "noise2.h5"])
def test_a_healthy_run_holds(ttrace: Run, tmp_path: Path, run: str) -> None:
    done, report = audited(ttrace, tmp_path, TESTDATA / run, "--specification", SPECIFICATION)
    assert done.returncode == MATCH, done.stdout
    assert done.stdout.startswith("HOLDS  172 of 172 tensors follow from what they were computed")
    assert len(report["results"]) == TENSORS
    assert report["findings"] == []
    assert report["sharpness"]["worst_share"] <= 0.7
    assert report["sharpness"]["gradient"] < 1e-5


def test_a_lost_reduction_is_named_from_the_run_alone(ttrace: Run, tmp_path: Path) -> None:
    run = TESTDATA / "tp2sp_p12"
    done, report = audited(ttrace, tmp_path, run, "--specification", SPECIFICATION)
    assert done.returncode == DIVERGED
    assert done.stdout.startswith("BROKEN  the gradients of 10 of 28 parameters (final_norm.*, ")
    assert done.stdout.splitlines()[0].endswith(") were never summed over tp (2 ranks)")
    assert "\n  first at final_norm.bias · main_grad · step 0: " in done.stdout
    (finding,) = report["findings"]
    norms = {name for name in finding["members"] if "norm" in name and "/main_grad/" in name}
    assert len(norms) == len(finding["members"]) == 10
    assert finding["ranks"] == [0, 1]
    assert [(cause["name"], cause["axis"]) for cause in finding["causes"]] == [
        ("missing_reduction", "tp")
    ]
    downstream = [result["id"] for result in report["results"] if result.get("downstream")]
    assert len(downstream) == 10
    assert all("/param_after_step/" in name for name in downstream)


def test_without_a_specification_too_little_is_checked(ttrace: Run, tmp_path: Path) -> None:
    done, report = audited(ttrace, tmp_path, TESTDATA / "tp2sp")
    assert done.returncode == INCONCLUSIVE
    assert done.stdout.startswith("INCONCLUSIVE  nothing is broken, but ")
    assert "--specification" in report["why"]


def test_only_the_tensors_asked_for_are_judged(ttrace: Run, tmp_path: Path) -> None:
    arguments = [TESTDATA / "tp2sp_p12", "--specification", SPECIFICATION]
    done, report = audited(ttrace, tmp_path, *arguments, "--only", "layers.0.mlp*")
    assert done.returncode == MATCH, done.stdout
    assert {result["key"]["name"].split("[")[0] for result in report["results"]} >= {
        "layers.0.mlp",
        "layers.0.mlp.fc1.weight",
    }
    _, report = audited(ttrace, tmp_path, *arguments, "--kind", "main_grad")
    assert {result["key"]["kind"] for result in report["results"]} == {"main_grad"}


def test_the_report_is_the_same_for_any_number_of_threads(ttrace: Run, tmp_path: Path) -> None:
    reports = []
    for threads in ("1", "3"):
        arguments = [TESTDATA / "tp2sp_p12", "--specification", SPECIFICATION, "--exact"]
        _, report = audited(ttrace, tmp_path, *arguments, "--threads", threads)
        del report["environment"]
        reports.append(report)
    assert reports[0] == reports[1]


def test_json_on_stdout(ttrace: Run) -> None:
    run = TESTDATA / "tp2sp"
    done = ttrace("audit", run, "--specification", SPECIFICATION, "--json", "-")
    assert json.loads(done.stdout)["verdict"] == "holds"
    assert "HOLDS" in done.stderr
    done = ttrace("audit", run, "--specification", SPECIFICATION, "--json", "-", "--quiet")
    assert done.stderr == ""


def changed(tmp_path: Path, change: Any) -> Path:
    specification = json.loads(SPECIFICATION.read_text())
    change(specification)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(specification))
    return path


def test_causes_that_do_not_fit_are_listed(ttrace: Run, tmp_path: Path) -> None:
    def another_norm(specification: Any) -> None:
        for pattern in specification["patterns"]:
            for node in pattern["nodes"]:
                if node[0] == "layer_norm":
                    node[2]["eps"] = 0.1

    arguments = [TESTDATA / "tp2sp", "--specification", changed(tmp_path, another_norm)]
    done, report = audited(ttrace, tmp_path, *arguments)
    assert done.returncode == DIVERGED
    finding = report["findings"][0]
    assert finding["id"].split("/")[2:4] == ["output", "layers.0.norm1"]
    left = [one["unexplained"] for one in finding["rejected"]]
    assert left == sorted(left)
    assert "scaled" in [one["name"] for one in finding["rejected"]]
    assert "\n     not      " in done.stdout


def wrong_batch(specification: Any) -> None:
    for tensor in specification["tensors"]:
        if tensor["kind"] == "param" and tensor["name"] == "final_norm.weight":
            tensor["dtype"] = "bfloat16"


def wrong_primitive(specification: Any) -> None:
    specification["patterns"][0]["nodes"][0][0] = "convolution"


def circle(specification: Any) -> None:
    following = next(tensor for tensor in specification["tensors"] if tensor.get("from"))
    following["from"][0] = len(specification["tensors"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (wrong_batch, "another model, batch or precision"),
        (wrong_primitive, "convolution"),
        (circle, "/tensors/"),
        (lambda specification: specification.update(schema="ttrace.specification/9"), "schema"),
        (lambda specification: specification["tensors"].clear(), "has no tensor of"),
    ],
)
def test_a_specification_that_does_not_fit_is_refused(
    ttrace: Run, tmp_path: Path, change: Any, reason: str
) -> None:
    specification = changed(tmp_path, change)
    done = ttrace("audit", TESTDATA / "ref.h5", "--specification", specification)
    assert done.returncode == UNUSABLE
    check_refused(done, reason)


def test_an_input_is_never_replaced(ttrace: Run, tmp_path: Path) -> None:
    specification = tmp_path / "specification.json"
    specification.write_bytes(SPECIFICATION.read_bytes())
    done = ttrace(
        "audit", TESTDATA / "ref.h5", "--specification", specification, "--json", specification
    )
    assert done.returncode == UNUSABLE
    assert specification.read_bytes() == SPECIFICATION.read_bytes()
