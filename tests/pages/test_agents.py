"""The page for coding agents names every cause, and every member that it names is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.ttrace_cli import run_ttrace

from pages.blocks import REPOSITORY

PAGE = (REPOSITORY / "lib/torch/docs/agents.md").read_text()
SCHEMAS = {
    name: json.loads((REPOSITORY / "schemas" / f"{file}.schema.json").read_text())
    for name, file in (
        ("compare", "answer"),
        ("audit", "answer"),
        ("localize", "answer"),
        ("diff", "diff"),
    )
}
PATHS = sorted(set(re.findall(r"`((?:json|compare|audit|localize|diff)\.[a-z_.\[\]]+)`", PAGE)))
ROWS = re.findall(r"^\| (.*) \|$", PAGE, re.M)
# Cause -> names of its values.
TABLE = {
    cells[0].strip("`"): set(re.findall(r"`(\w+)`", cells[1]))
    for cells in (row.split(" | ") for row in ROWS)
    if len(cells) == 4 and cells[0].startswith("`")
}


def source(path: str) -> str:
    return (REPOSITORY / path).read_text()


def causes_of_the_program() -> list[str]:
    words = source("lib/report/cause_words.cpp").split("glossary()")[0]
    return re.findall(r'^      \{"(\w+)",', words, re.M)


def test_every_cause_that_the_program_can_name_has_a_row() -> None:
    causes = causes_of_the_program()
    assert len(causes) > 20
    assert set(TABLE) == set(causes)


@pytest.mark.parametrize("cause", TABLE)
def test_a_cause_is_one_that_explain_knows(cause: str) -> None:
    done = run_ttrace("explain", cause)
    assert done.stdout.startswith(f"{cause}, a cause"), done.stderr


def test_the_values_of_a_cause_are_those_of_its_sentence() -> None:
    sentences: dict[str, set[str]] = {}
    templates = source("lib/report/cause_sentences.cpp")
    for cause, text in re.findall(r'\{"(\w+)",\s*((?:"[^"]*"\s*)+)\}', templates):
        fields = {re.split("[:?]", field)[0] for field in re.findall(r"\{([^}]*)\}", text)}
        sentences.setdefault(cause, set()).update(fields)
    code = "".join(path.read_text() for path in (REPOSITORY / "lib/localize/causes").glob("*.cpp"))
    unknown = [
        (cause, value)
        for cause, values in TABLE.items()
        for value in values
        if value not in sentences[cause] and f'"{value}"' not in code
    ]
    assert not unknown


def members(schema: Any, root: Any, name: str) -> Iterator[Any]:
    """Schemas of a member, in every branch that a schema has."""
    for one in branches(schema, root):
        if name in one.get("properties", {}):
            yield one["properties"][name]


def branches(schema: Any, root: Any) -> Iterator[Any]:
    if not isinstance(schema, dict):
        return
    yield schema
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from branches(target, root)
    for name in ("then", "else"):
        yield from branches(schema.get(name), root)
    for name in ("oneOf", "anyOf", "allOf"):
        for one in schema.get(name, ()):
            yield from branches(one, root)


def is_there(path: str, root: Any) -> bool:
    found = [root]
    for part in path.split("."):
        name = part.removesuffix("[]")
        found = [member for one in found for member in members(one, root, name)]
        if part.endswith("[]"):
            found = [
                branch["items"]
                for one in found
                for branch in branches(one, root)
                if "items" in branch
            ]
    return bool(found)


def test_the_page_names_members() -> None:
    assert len(PATHS) > 40


@pytest.mark.parametrize("path", PATHS)
def test_a_member_is_in_the_schema(path: str) -> None:
    command, _, rest = path.partition(".")
    answers = ["compare", "audit", "localize"] if command == "json" else [command]
    assert all(is_there(rest, SCHEMAS[one]) for one in answers)


@pytest.mark.parametrize(
    "path", ["compare.frontier[].colour", "compare.frontier.id", "audit.nothing"]
)
def test_a_member_that_nobody_has_is_not(path: str) -> None:
    command, _, rest = path.partition(".")
    assert not is_there(rest, SCHEMAS[command])


def test_every_phase_and_outcome_is_explained() -> None:
    members = SCHEMAS["compare"]["$defs"]["AnsweredTensor"]["properties"]
    named = members["phase"]["enum"] + members["outcome"]["enum"]
    assert [one for one in named if one != "match" and f"`{one}`" not in PAGE] == []
