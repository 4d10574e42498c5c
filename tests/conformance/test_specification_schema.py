"""The schema of a specification takes the example and refuses what the page refuses."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from support.ttrace_cli import REPOSITORY

from conformance.changed import REMOVED, changed

SCHEMAS = REPOSITORY / "schemas"
SCHEMA = json.loads((SCHEMAS / "specification.schema.json").read_text())
EXAMPLE = json.loads((SCHEMAS / "examples" / "specification.json").read_text())
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)

FIRST_NODE = ("patterns", 0, "nodes", 0)
FOLLOWING, GIVEN = ("tensors", 5), ("tensors", 0)
BROKEN: dict[str, tuple[tuple, Any]] = {
    "later version": (("schema",), "ttrace.specification/2"),
    "no version": (("schema",), REMOVED),
    "no tensors": (("tensors",), REMOVED),
    "no patterns": (("patterns",), REMOVED),
    "unknown member": (("extra",), {}),
    "unknown source": (("source", "host"), "a"),
    "unknown kind": ((*GIVEN, "kind"), "outputs"),
    "a kind that follows from no expression": ((*GIVEN, "kind"), "grad_input"),
    "no name": ((*GIVEN, "name"), REMOVED),
    "name with a slash": ((*GIVEN, "name"), "a/b"),
    "unknown dtype": ((*GIVEN, "dtype"), "float4"),
    "unknown size of a dimension": ((*GIVEN, "shape"), [-2]),
    "values of a parameter": ((*GIVEN, "values"), [1.0]),
    "inputs of a given tensor": ((*GIVEN, "from"), [0]),
    "pattern and another name": ((*FOLLOWING, "same"), 2),
    "pattern and opaque": ((*FOLLOWING, "opaque"), "aten.bernoulli_"),
    "unknown primitive": ((*FIRST_NODE, 0), "convolution"),
    "negative argument": ((*FIRST_NODE, 1), [-1]),
    "unknown attribute": ((*FIRST_NODE, 2, "axis"), 0),
    "negative dimension": ((*FIRST_NODE, 2, "dims"), [-1, 0]),
    "node without a shape": ((*FIRST_NODE, 4), REMOVED),
    "empty pattern": (("patterns", 0, "nodes"), []),
    "unknown way to combine": (("after_backward", "main_grad", "combine"), "max"),
    "tied to nothing": (("after_backward", "tied"), [["a"]]),
    "opaque operation of no tensor": (("opaque",), {"aten.bernoulli_": 0}),
}


def test_example_is_valid():
    VALIDATOR.validate(EXAMPLE)


@pytest.mark.parametrize("name", BROKEN)
def test_schema_refuses(name):
    path, value = BROKEN[name]
    assert not VALIDATOR.is_valid(changed(EXAMPLE, path, value)), name


def test_numbers_that_json_cannot_hold_are_texts():
    full = ("patterns", 3, "nodes", 1, 2, "value")
    assert VALIDATOR.is_valid(changed(EXAMPLE, full, "-inf"))
    assert not VALIDATOR.is_valid(changed(EXAMPLE, full, "minus infinity"))


def test_schema_and_page_have_the_same_primitives():
    page = (SCHEMAS / "specification-v1.md").read_text()
    tables = page.split("## Primitives")[1].split("## What a reader refuses")[0]
    rows = [line.split("|")[1] for line in tables.splitlines() if line.startswith("| `")]
    named = re.findall(r"`(\w+)`", "".join(rows))
    assert len(set(named)) == len(named)
    assert sorted(SCHEMA["$defs"]["primitive"]["enum"]) == sorted(named)


def test_example_follows_only_from_tensors_before():
    for number, tensor in enumerate(EXAMPLE["tensors"]):
        assert all(source < number for source in tensor.get("from", []))
        assert tensor.get("same", -1) < number
        if "pattern" in tensor:
            pattern = EXAMPLE["patterns"][tensor["pattern"]]
            assert pattern["inputs"] == len(tensor["from"])
            assert pattern["nodes"][-1][4] == tensor["shape"]
