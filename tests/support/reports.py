"""JSON reports: read, held against their schema, and joined by their ids."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from support.ttrace_cli import REPOSITORY

Json = dict[str, Any]

SCHEMA_FILES = {
    "ttrace.answer/1": "answer.schema.json",
    "ttrace.selftest/1": "selftest.schema.json",
    "ttrace.diff/1": "diff.schema.json",
    "ttrace.trend/1": "trend.schema.json",
    "ttrace.known/1": "known.schema.json",
}


# Numbers of results and findings have nine digits.
DIGITS = 5.1e-9


def nine_digits(value: float) -> float:
    return float(f"{value:.9g}")


def schema_of(version: str) -> Json:
    return json.loads((REPOSITORY / "schemas" / SCHEMA_FILES[version]).read_text(encoding="utf-8"))


def closed(schema: Any) -> Any:
    """The schema, in which no object has a member that the schema does not name. Published schemas
    are open, so that an old reader takes a newer report; what the program writes is named."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: closed(value) for name, value in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


@functools.cache
def validator(schema: str = "ttrace.answer/1") -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(closed(schema_of(schema)))


def read_report(path: Path) -> Json:
    """The report, which is as the schema of its version says and refers to nothing it lacks."""
    report = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    check_report(report)
    return report


def check_report(report: Json) -> None:
    validator(report["schema"]).validate(report)
    if (report["schema"], report.get("command")) == ("ttrace.answer/1", "compare"):
        _check_ids(report)


def by_id(report: Json) -> dict[str, Json]:
    """Id -> result."""
    return {result["id"]: result for result in report["results"]}


def result_of(report: Json, id: str) -> Json:
    """The result with this id: "step/micro-batch/kind/name/call/copy"."""
    return by_id(report)[id]


def findings(report: Json) -> list[Json]:
    """The frontier, each finding with the members of the result that it is of.

    What is missing or extra as a whole has those of its first tensor. Settings are no tensors, and
    not among them.
    """
    results = by_id(report)
    return [
        {**results[_first_result(item)], **item}
        for item in report["findings"]
        if "setting" not in item
    ]


def settings(report: Json) -> list[Json]:
    """The settings in which the optimizers differ."""
    return [item for item in report["findings"] if "setting" in item]


def _first_result(item: Json) -> str:
    return item["members"][0] if item["id"].startswith("group:") else item["id"]


def _check_ids(report: Json) -> None:
    results = by_id(report)
    assert len(results) == len(report["results"])
    for id, result in results.items():
        key = result["key"]
        microbatch = "-" if key["microbatch"] is None else key["microbatch"]
        place = [key["step"], microbatch, key["kind"], key["name"], key["call"], key.get("copy", 0)]
        assert id == "/".join(map(str, place))
    frontier = {item["id"]: item for item in report["findings"]}
    assert len(frontier) == len(report["findings"])
    for item in report["findings"]:
        if "setting" in item:
            assert set(item["members"]) <= results.keys()
            continue
        assert item["outcome"] == results[_first_result(item)]["outcome"]
        for name in ("members", "depends_on", "downstream"):
            assert set(item.get(name, [])) <= results.keys(), (item["id"], name)
    grouped = {id: group["id"] for group in report["groups"] for id in group["findings"]}
    assert grouped == {id: item["group"] for id, item in frontier.items() if "group" in item}
    for group in report["groups"]:
        assert group["shown"] in group["findings"]
    for suspect in report["suspects"]:
        assert {suspect["id"], suspect["largest_before"] or suspect["id"]} <= results.keys()
