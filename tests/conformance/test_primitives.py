"""The schema of specifications knows the primitives of the program, and their attributes."""

from __future__ import annotations

import json

from support.ttrace_cli import REPOSITORY

SCHEMA = json.loads((REPOSITORY / "schemas" / "specification.schema.json").read_text())
PAGE = (REPOSITORY / "schemas" / "specification-v1.md").read_text(encoding="utf-8")
# The program's tests fail for a primitive without a case.
CASES = json.loads((REPOSITORY / "tests" / "specification" / "primitive_cases.json").read_text())


def test_every_primitive_is_in_the_schema_and_on_its_page():
    names = {case["node"][0] for case in CASES}
    assert names == set(SCHEMA["$defs"]["primitive"]["enum"])
    assert not [name for name in names if f"`{name}`" not in PAGE]


def test_every_attribute_is_in_the_schema():
    attributes = {name for case in CASES for name in case["node"][2]}
    assert attributes <= set(SCHEMA["$defs"]["attributes"]["properties"])
