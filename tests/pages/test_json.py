"""Every JSON file that a page shows follows its schema."""

from __future__ import annotations

import json

import jsonschema
import pytest
from referencing import Registry, Resource

from pages.blocks import REPOSITORY, Block, blocks

SCHEMAS = [json.loads(path.read_text()) for path in (REPOSITORY / "schemas").glob("*.schema.json")]
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS if "$id" in schema
)
SHOWN = blocks("json")


def test_there_are_examples() -> None:
    assert len(SHOWN) > 4


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_it_follows_its_schema(block: Block) -> None:
    value = json.loads(block.text)
    fitting = [schema for schema in SCHEMAS if f'"{value["schema"]}"' in json.dumps(schema)]
    assert fitting, f"no schema of {value['schema']}"
    jsonschema.Draft202012Validator(fitting[0], registry=REGISTRY).validate(value)
