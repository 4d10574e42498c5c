"""ttrace localize: the findings of a comparison, explained by what follows from its own inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.reports import read_report
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA, UNUSABLE

from .conftest import Run
from .small_traces import check_refused

SPECIFICATION = ["--specification", TESTDATA / "specification.json"]
HEALTHY = [TESTDATA / "ref.h5", TESTDATA / "tp2sp"]
FAULTY = [TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12"]


def localized(ttrace: Run, tmp_path: Path, *arguments: str | Path) -> tuple[Any, dict[str, Any]]:
    out = tmp_path / "localize.json"
    done = ttrace("localize", *arguments, "--json", out)
    report = read_report(out)
    assert report["exit_code"] == done.returncode
    return done, report


def test_a_finding_is_inside_the_module_that_breaks_it(ttrace: Run, tmp_path: Path) -> None:
    done, report = localized(ttrace, tmp_path, *FAULTY, *SPECIFICATION)
    assert done.returncode == DIVERGED
    first, _, rest = done.stdout.partition("\n")
    assert first.startswith("FINDINGS  the gradients of 10 of 28 parameters (final_norm.*, ")
    assert first.endswith(") were never summed over tp (2 ranks)")
    assert "\n  1 finding, the first in the gradient synchronisation over tp\n" in rest
    assert "place    the gradient synchronisation over tp  *** HERE ***" in done.stdout
    assert done.stdout.count("*** HERE ***") == 1
    (finding,) = report["findings"]
    assert finding["here"]
    assert finding["place"] == {"kind": "synchronisation", "of": "tp"}
    assert finding["module"].endswith(("norm", "norm1", "norm2"))
    assert finding["source"]["class"] == "LayerNorm"
    assert finding["phase"] == "synchronisation"
    assert finding["ranks"] == [0, 1]
    assert len(finding["members"]) == 10
    assert finding["causes"][0]["name"] == "missing_reduction"
    results = {(check["id"].split("/")[2], check["result"]) for check in finding["checks"]}
    assert ("main_grad", "inconsistent") in results
    for kind in ("output", "grad_output", "param_grad"):
        assert (kind, "consistent") in results
        assert (kind, "inconsistent") not in results


def test_a_report_in_hand_gives_the_same_answer(ttrace: Run, tmp_path: Path) -> None:
    compared = tmp_path / "compare.json"
    assert ttrace("compare", *FAULTY, "--json", compared).returncode == DIVERGED
    _, now = localized(ttrace, tmp_path, *FAULTY, *SPECIFICATION)
    _, later = localized(ttrace, tmp_path, *FAULTY, *SPECIFICATION, "--report", compared)
    for report in (now, later):
        del report["environment"]
    assert now == later


def test_the_answer_holds_what_the_comparison_said_in_values(ttrace: Run, tmp_path: Path) -> None:
    compared = tmp_path / "compare.json"
    noise = [word for i in (1, 2) for word in ("--noise", TESTDATA / f"noise{i}.h5")]
    assert ttrace("compare", *FAULTY, *noise, "--json", compared).returncode == DIVERGED
    report = read_report(compared)
    _, answer = localized(ttrace, tmp_path, *FAULTY, *noise)
    shown = next(one for one in report["findings"] if one["id"] == answer["findings"][0]["id"])
    assert answer["findings"][0]["causes"] == shown["causes"]
    cause = shown["causes"][0]
    values = cause["values"]
    assert values["reduced"] == "summed"
    assert cause["evidence"] == (
        f"the {values['reduction']} of the copies is the reference "
        f"(what is left: {values['left']:.3g} of the allowed)"
    )
    assert answer["tolerance"] == report["tolerance"]
    assert "layout_rules" not in answer
    page = tmp_path / "page.html"
    ttrace("report", "show", tmp_path / "localize.json", "--format", "html", "-o", page)
    again = f"ttrace localize {FAULTY[0]} {FAULTY[1]}" + "".join(f" {word}" for word in noise)
    assert f"<code>{again}</code>" in page.read_text()


def test_the_page_shows_numbers_that_the_evidence_does_not(ttrace: Run, tmp_path: Path) -> None:
    compared = tmp_path / "compare.json"
    ttrace("compare", *FAULTY, "--json", compared)
    report = read_report(compared)
    for one in report["findings"]:
        one["causes"][0] |= {"evidence": "a half", "values": {"the_factor": 0.25, "of": "words"}}
    compared.write_text(json.dumps(report))
    page = tmp_path / "page.html"
    ttrace("localize", *FAULTY, "--report", compared, "--html", page)
    assert '<span class="dim values">the factor 0.25</span>' in page.read_text()


def test_values_of_a_cause_that_are_none_are_refused(ttrace: Run, tmp_path: Path) -> None:
    compared = tmp_path / "compare.json"
    ttrace("compare", *FAULTY, "--json", compared)
    report = read_report(compared)
    for values, told in (({"reduced": ["summed"]}, "/values/reduced"), ([1], "/values")):
        report["findings"][0]["causes"][0]["values"] = values
        compared.write_text(json.dumps(report))
        check_refused(ttrace("localize", *FAULTY, "--report", compared), told)


def test_without_a_specification_replicas_still_tell(ttrace: Run, tmp_path: Path) -> None:
    done, report = localized(ttrace, tmp_path, *FAULTY)
    assert done.returncode == DIVERGED
    assert "specification" not in report
    assert report["findings"][0]["here"]
    assert "--specification" in report["findings"][0]["next"]


def test_every_layer_of_a_healthy_run_holds(ttrace: Run, tmp_path: Path) -> None:
    done, report = localized(ttrace, tmp_path, *HEALTHY, *SPECIFICATION, "--all-layers")
    assert done.returncode == MATCH
    assert done.stdout.startswith("NOTHING TO EXPLAIN")
    assert len(report["layers"]) > 25
    assert all(layer["broken"] == [] for layer in report["layers"])
    assert max(layer["worst_share"] for layer in report["layers"]) <= 0.7


def test_a_module_that_was_not_judged_in_full_is_not_said_to_follow(
    ttrace: Run, tmp_path: Path
) -> None:
    done, report = localized(ttrace, tmp_path, *HEALTHY, "--all-layers")
    assert done.returncode == MATCH
    layers = report["layers"]
    in_full = [layer for layer in layers if layer["not_judged"] == 0 < layer["judged"]]
    tensors = sum(layer["judged"] + layer["not_judged"] for layer in layers)
    left = sum(layer["not_judged"] for layer in layers)
    assert 0 < left < tensors
    assert len(in_full) == 1
    assert done.stdout.splitlines()[0] == (
        "NOTHING TO EXPLAIN  the comparison is a match, and "
        f"1 of {len(layers)} modules follows from its own inputs; "
        f"{left} of the {tensors} tensors of the modules could not be judged by them"
    )
    done, _ = localized(ttrace, tmp_path, *HEALTHY, *SPECIFICATION, "--layer", "layers.0.norm*")
    assert done.stdout.splitlines()[0] == (
        "NOTHING TO EXPLAIN  the comparison is a match, and 2 modules follow from their own inputs"
    )


def test_where_no_module_was_judged_none_is_said_to_follow(ttrace: Run, tmp_path: Path) -> None:
    done, report = localized(ttrace, tmp_path, *HEALTHY, "--layer", "layers.0")
    assert done.returncode == INCONCLUSIVE
    assert [layer["judged"] for layer in report["layers"]] == [0]
    assert done.stdout.splitlines()[0] == (
        "INCONCLUSIVE  the comparison is a match; no tensor of 1 module could be judged by its "
        "inputs (--specification says what these are)"
    )


def test_one_layer_is_judged_on_request(ttrace: Run, tmp_path: Path) -> None:
    _, report = localized(ttrace, tmp_path, *HEALTHY, *SPECIFICATION, "--layer", "layers.1.mlp*")
    modules = [layer["module"] for layer in report["layers"]]
    assert modules == sorted(modules)
    assert "layers.1.mlp.fc1" in modules
    assert all(module.startswith("layers.1.mlp") for module in modules)


def test_a_layer_that_is_not_there_is_refused_with_the_nearest(ttrace: Run) -> None:
    done = ttrace("localize", *HEALTHY, *SPECIFICATION, "--layer", "layers.7.mlp")
    assert done.returncode == UNUSABLE
    check_refused(done, "layers.1.mlp")


def test_reports_of_others_are_refused(ttrace: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    ttrace("compare", TESTDATA / "ref.h5", TESTDATA / "noise1.h5", "--json", other)
    done = ttrace("localize", *FAULTY, "--report", other)
    assert done.returncode == UNUSABLE
    check_refused(done, "the report is of other traces")
    text = json.loads(other.read_text())
    for damage, reason in (
        ({"schema": "ttrace.report/1"}, "ttrace.answer/1"),
        ({"findings": 3}, "/findings"),
        (
            {"findings": [{"id": "0/x/output/a/0/0", "outcome": "diverged"}]},
            "is no number of an id",
        ),
        ({"results": [{}]}, "/results/0"),
    ):
        other.write_text(json.dumps({**text, **damage}))
        done = ttrace("localize", *FAULTY, "--report", other)
        assert done.returncode == UNUSABLE
        check_refused(done, reason)
    other.write_text("{")
    assert ttrace("localize", *FAULTY, "--report", other).returncode == UNUSABLE


def test_a_plan_isolates_what_differs(ttrace: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    done, report = localized(ttrace, tmp_path, *FAULTY, "--plan", plan)
    modules = [module["name"] for module in json.loads(plan.read_text())["modules"]]
    assert "layers.0.norm1" in modules
    assert "layers.0.mlp.fc1" not in modules  # its gradients are right
    assert report["written_plan"] == {"file": str(plan), "modules": len(modules)}
    assert f"TTRACE_PLAN={plan}" in done.stdout.replace("\n    ", "")
    ttrace("localize", *FAULTY, "--plan", plan, "--layer", "layers.1.mlp*")
    modules = [module["name"] for module in json.loads(plan.read_text())["modules"]]
    assert modules == ["layers.1.mlp", "layers.1.mlp.fc1", "layers.1.mlp.fc2"]


def test_a_plan_replaces_no_input(ttrace: Run, tmp_path: Path) -> None:
    specification = tmp_path / "specification.json"
    specification.write_bytes((TESTDATA / "specification.json").read_bytes())
    for arguments in (
        ["--specification", specification, "--plan", specification],
        ["--json", tmp_path / "same.json", "--plan", tmp_path / "same.json"],
        ["--plan", TESTDATA / "ref.h5"],
        ["--plan", "-"],
    ):
        assert ttrace("localize", *FAULTY, *arguments).returncode == UNUSABLE
    assert specification.read_bytes() == (TESTDATA / "specification.json").read_bytes()


def test_without_differences_there_is_no_plan(ttrace: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    done = ttrace("localize", *HEALTHY, "--plan", plan)
    assert done.returncode == UNUSABLE
    check_refused(done, "finds no module that differs")
    assert not plan.exists()


def test_code_that_differs_is_a_finding_without_numbers(ttrace: Run, tmp_path: Path) -> None:
    specification = json.loads((TESTDATA / "specification.json").read_text())
    for pattern in specification["patterns"]:
        for node in pattern["nodes"]:
            if node[0] == "layer_norm":
                node[2]["eps"] = 1e-6
    theirs = tmp_path / "theirs.json"
    theirs.write_text(json.dumps(specification))
    code = ["--candidate-specification", theirs]
    done, report = localized(ttrace, tmp_path, *HEALTHY, *SPECIFICATION, *code)
    assert done.returncode == DIVERGED
    assert "1 difference between the specifications" in done.stdout.replace("\n  ", " ")
    (difference,) = report["code"]
    assert difference["what"].startswith("eps of layer_norm is 1e-05 in the reference and 1e-06 ")
    assert difference["source"]["class"] == "LayerNorm"
    assert len(difference["tensors"]) == 5
    assert all("norm" in tensor["name"] for tensor in difference["tensors"])

    same = ["--candidate-specification", TESTDATA / "specification.json"]
    done, report = localized(ttrace, tmp_path, *HEALTHY, *SPECIFICATION, *same)
    assert done.returncode == MATCH
    assert report["code"] == []
    assert report["expressions_compared"] > 100

    done = ttrace("localize", *HEALTHY, *code)
    assert done.returncode == UNUSABLE
    check_refused(done, "needs --specification")
    theirs.write_text('{"schema": "ttrace.specification/1", "patterns": [], "tensors": []}')
    done = ttrace("localize", *HEALTHY, *SPECIFICATION, *code)
    assert done.returncode == UNUSABLE
    check_refused(done, "has no tensor of")
