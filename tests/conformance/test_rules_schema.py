"""The schemas of rules files and the readers agree on what a rules file is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from referencing import Registry, Resource
from support.ttrace_cli import REPOSITORY

from conformance.changed import REMOVED, changed

from .conftest import Run
from .test_manifest_schema import PLACEMENTS
from .write_trace import Tensor, write_reference

X = np.arange(4, dtype="<f4")
FILES = {name: f"{name}.schema.json" for name in ("manifest", "layout-rules", "map-rules")}
SCHEMAS = {
    name: json.loads((REPOSITORY / "schemas" / file).read_text()) for name, file in FILES.items()
}
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)
VALIDATORS = {
    name: jsonschema.Draft202012Validator(schema, registry=REGISTRY)
    for name, schema in SCHEMAS.items()
}

# Of one rank and of two; every rule below fits them.
MANIFEST = {
    "schema": "ttrace.manifest/2",
    "meshes": {"": {"axes": [{"name": "tp", "size": 2}]}},
    "tensors": [
        {"name": name, "kind": kind, "step": 0, "dtype": "float32", "shape": [4, 2]}
        for name, kind in (
            ("a", "param"),
            ("b", "param"),
            ("a", "main_grad"),
            ("b", "main_grad"),
            ("e1", "buffer"),
            ("e2", "buffer"),
        )
    ],
}

LAYOUT: dict[str, Any] = {
    "schema": "ttrace.layout/1",
    "meshes": {"kv": {"axes": [{"name": "head", "size": 2}], "ranks": [1, 0]}},
    "rules": [
        {
            "name": "a",
            "kind": "param",
            "placements": {"tp": {"shard": 0, "sizes": [3, 1]}},
            "held_at": {"tp": [0, 1]},
            "shape": [4, 2],
            "scale": 0.5,
        },
        {
            "name": ["a", "b*"],
            "kind": ["main_grad", "param"],
            "mesh": "kv",
            "placements": {"head": {"shard": 1}},
        },
    ],
}
MAP: dict[str, Any] = {
    "schema": "ttrace.map/2",
    "reference": [],
    "candidate": [
        {
            "from": ["a", "b"],
            "to": "c",
            "kind": "param",
            "concat": {"dim": 0, "groups": 2},
            "trim": {"dim": 0, "size": 7},
            "pad": {"dim": 1, "size": 3},
            "transpose": [1, 0],
        },
        {
            "from": "a",
            "to": ["d", "e"],
            "kind": ["main_grad"],
            "split": {"dim": 0, "groups": 1, "sizes": [3, 1]},
        },
        {"from": "e1", "to": ["f", "g"], "kind": "buffer", "same": True},
        {"drop": ["e2", "h{x}"], "kind": ["buffer"], "reason": "only here"},
        {"from": ["{x...}"], "to": ["y.{x}"]},
    ],
}
RULE, JOIN, CUT = ("rules", 0), ("candidate", 0), ("candidate", 1)
SAME, DROP = ("candidate", 2), ("candidate", 3)

BROKEN_LAYOUTS: dict[str, tuple[tuple, Any]] = {
    "later version": (("schema",), "ttrace.layout/2"),
    "no version": (("schema",), REMOVED),
    "no rules": (("rules",), REMOVED),
    "rules that are an object": (("rules",), {}),
    "rule that is a name": (RULE, "a"),
    "unknown member": (("tensors",), []),
    "unknown member of a rule": ((*RULE, "dtype"), "float32"),
    "no name": ((*RULE, "name"), REMOVED),
    "no names": ((*RULE, "name"), []),
    "name that is a number": ((*RULE, "name"), 1),
    "names that are numbers": ((*RULE, "name"), ["a", 1]),
    "unknown kind": ((*RULE, "kind"), "params"),
    "no kinds": ((*RULE, "kind"), []),
    "unknown kind in a list": ((*RULE, "kind"), ["param", "params"]),
    "mesh that is a list": ((*RULE, "mesh"), ["kv"]),
    "mesh of nothing": ((*RULE, "mesh"), None),
    "held nowhere": ((*RULE, "held_at"), {"tp": []}),
    "held twice at one place": ((*RULE, "held_at"), {"tp": [0, 0]}),
    "held at text": ((*RULE, "held_at"), {"tp": ["0"]}),
    "placements that are a list": ((*RULE, "placements"), ["tp"]),
    "unknown placement": ((*RULE, "placements", "tp"), "sharded"),
    "placement of two things": ((*RULE, "placements", "tp"), {"shard": 0, "only": 0}),
    "negative extent": ((*RULE, "shape"), [-4, 2]),
    "fractional extent": ((*RULE, "shape"), [4, 0.5]),
    "shape as text": ((*RULE, "shape"), "4x2"),
    "too many dimensions": ((*RULE, "shape"), [4, 2] + [1] * 31),
    "scale as text": ((*RULE, "scale"), "0.5"),
    "scale of nothing": ((*RULE, "scale"), None),
    "meshes that are a list": (("meshes",), []),
    "mesh without axes": (("meshes", "kv"), {}),
    "axis of size 0": (("meshes", "kv", "axes", 0, "size"), 0),
    "axis without a name": (("meshes", "kv", "axes", 0, "name"), ""),
    "unknown member of a mesh": (("meshes", "kv", "order"), "row-major"),
}

BROKEN_MAPS: dict[str, tuple[tuple, Any]] = {
    "later version": (("schema",), "ttrace.map/3"),
    "earlier version": (("schema",), "ttrace.map/1"),
    "no version": (("schema",), REMOVED),
    "unknown member": (("rules",), []),
    "rules that are an object": (("candidate",), {"from": "a", "to": "b"}),
    "rule that is a name": (JOIN, "a"),
    "unknown member of a rule": ((*JOIN, "scale"), 2),
    "no from": ((*JOIN, "from"), REMOVED),
    "no to": ((*JOIN, "to"), REMOVED),
    "empty from": ((*JOIN, "from"), []),
    "from of an empty pattern": ((*JOIN, "from"), ["a", ""]),
    "from that is a number": ((*JOIN, "from"), 1),
    "to that is an object": ((*CUT, "to"), {"d": 0, "e": 1}),
    "empty to": ((*CUT, "to"), []),
    "one tensor joined": ((*JOIN, "from"), "a"),
    "one tensor in a list joined": ((*JOIN, "from"), ["a"]),
    "one tensor of a split": ((*CUT, "to"), "d"),
    "several without concat": ((*JOIN, "concat"), REMOVED),
    "several without split": ((*CUT, "split"), REMOVED),
    "several to several": ((*JOIN, "to"), ["c", "d"]),
    "concat and split": ((*JOIN, "split"), {"dim": 0}),
    "unknown kind": ((*JOIN, "kind"), "params"),
    "no kinds": ((*JOIN, "kind"), []),
    "concat of no dimension": ((*JOIN, "concat"), {}),
    "concat that is a number": ((*JOIN, "concat"), 0),
    "concat of a negative dimension": ((*JOIN, "concat", "dim"), -1),
    "concat of 0 groups": ((*JOIN, "concat", "groups"), 0),
    "concat with sizes": ((*JOIN, "concat", "sizes"), [4, 4]),
    "split of no dimension": ((*CUT, "split", "dim"), REMOVED),
    "split of 0 groups": ((*CUT, "split", "groups"), 0),
    "split of one size": ((*CUT, "split", "sizes"), [4]),
    "split of negative sizes": ((*CUT, "split", "sizes"), [5, -1]),
    "unknown member of a split": ((*CUT, "split", "parts"), 2),
    "trim of no size": ((*JOIN, "trim", "size"), REMOVED),
    "trim of no dimension": ((*JOIN, "trim", "dim"), REMOVED),
    "trim to text": ((*JOIN, "trim", "size"), "7"),
    "pad to a negative size": ((*JOIN, "pad", "size"), -3),
    "pad with a value": ((*JOIN, "pad", "value"), 1),
    "transpose that is a number": ((*JOIN, "transpose"), 1),
    "transpose of a negative dimension": ((*JOIN, "transpose"), [1, -2]),
    "drop without a reason": ((*DROP, "reason"), REMOVED),
    "drop for no reason": ((*DROP, "reason"), ""),
    "drop of nothing": ((*DROP, "drop"), []),
    "drop to a name": ((*DROP, "to"), "d"),
    "one tensor that is the same": ((*SAME, "to"), "f"),
    "not the same": ((*SAME, "same"), False),
    "same and split": ((*SAME, "split"), {"dim": 0}),
    "several that are the same one": ((*SAME, "from"), ["a", "b"]),
    "transpose of text": ((*JOIN, "transpose"), ["1", "0"]),
}


def read_layout(ttrace: Run, folder: Path, rules: dict) -> tuple[int, str]:
    """What `lint` says of a run under these rules."""
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "rules.json").write_text(json.dumps(rules))
    done = ttrace("lint", "--manifest-only", folder, "--layout", folder / "rules.json")
    return done.returncode, done.stdout + done.stderr


def read_map(ttrace: Run, folder: Path, rules: dict) -> tuple[int, str]:
    """What `compare` says: the rank files are not there, so the best is "inconclusive"."""
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "rules.json").write_text(json.dumps(rules))
    done = ttrace("compare", folder, folder, "--map", folder / "rules.json")
    return done.returncode, done.stdout + done.stderr


def check_refused_by_reader(folder: Path, exit_code: int, said: str) -> None:
    assert exit_code == 2, said
    assert said.startswith(f"ttrace: {folder}/rules.json: "), said
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["layout-rules", "map-rules"])
def test_the_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_good_layout_rules_are_accepted_by_both(ttrace: Run, tmp_path: Path) -> None:
    VALIDATORS["layout-rules"].validate(LAYOUT)
    exit_code, said = read_layout(ttrace, tmp_path, LAYOUT)
    assert (exit_code, said[:5]) == (0, "CLEAN"), said


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_of_a_rule_is_accepted_by_both(
    ttrace: Run, tmp_path: Path, name: str
) -> None:
    rules = changed(LAYOUT, (*RULE, "placements", "tp"), PLACEMENTS[name])
    del rules["rules"][0]["held_at"]
    VALIDATORS["layout-rules"].validate(rules)
    exit_code, said = read_layout(ttrace, tmp_path, rules)
    assert (exit_code, said[:5]) == (0, "CLEAN"), said


@pytest.mark.parametrize("name", BROKEN_LAYOUTS)
def test_broken_layout_rules_are_refused_by_both(ttrace: Run, tmp_path: Path, name: str) -> None:
    rules = changed(LAYOUT, *BROKEN_LAYOUTS[name])
    assert not VALIDATORS["layout-rules"].is_valid(rules)
    check_refused_by_reader(tmp_path, *read_layout(ttrace, tmp_path, rules))


def test_good_map_rules_are_accepted_by_both(ttrace: Run, tmp_path: Path) -> None:
    VALIDATORS["map-rules"].validate(MAP)
    exit_code, said = read_map(ttrace, tmp_path, MAP)
    assert exit_code in (1, 3), said
    only_one_side = {key: value for key, value in MAP.items() if key != "reference"}
    VALIDATORS["map-rules"].validate(only_one_side)
    assert read_map(ttrace, tmp_path, only_one_side)[0] in (1, 3)


@pytest.mark.parametrize("name", BROKEN_MAPS)
def test_broken_map_rules_are_refused_by_both(ttrace: Run, tmp_path: Path, name: str) -> None:
    rules = changed(MAP, *BROKEN_MAPS[name])
    assert not VALIDATORS["map-rules"].is_valid(rules)
    check_refused_by_reader(tmp_path, *read_map(ttrace, tmp_path, rules))


def test_the_rules_of_the_page_follow_the_schemas() -> None:
    page = (REPOSITORY / "schemas" / "rules-v1.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```json\n")[1:]]
    documents = [json.loads(block) for block in blocks]
    assert [document["schema"] for document in documents] == ["ttrace.layout/1", "ttrace.map/2"]
    VALIDATORS["layout-rules"].validate(documents[0])
    VALIDATORS["map-rules"].validate(documents[1])


def test_a_starter_follows_the_schema(ttrace: Run, tmp_path: Path) -> None:
    reference, run = tmp_path / "ref.h5", tmp_path / "run.h5"
    for path, prefix in ((reference, "a"), (run, "b")):
        write_reference(path, [Tensor(f"{prefix}.{i}", "param", "float32", X + i) for i in (1, 2)])
    ttrace("compare", reference, run, "--map-starter", tmp_path / "starter.json")
    found = json.loads((tmp_path / "starter.json").read_text())
    assert len(found["candidate"]) == 1
    VALIDATORS["map-rules"].validate(found)
