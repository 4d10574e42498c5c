#!/usr/bin/env python3
"""Rooms that find things out say them in templates, not in pieces of sentences.

In the rooms below a literal of three words or more stands in an error, or is a whole template of
base::Message with named values: then all of a sentence can be read in one place, and a report in
another format has the values and not only the words. A literal is a template where it is the text
of a Message: in `Message{...}`, in `return {...}` of a function that returns one, or in the braces
that render() and the makers of causes take; or where it is a constant that is rendered. Exits 1
with one line per violation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from check_sources import Sources
from checking import run

ROOMS = ("answer", "audit", "comparison", "localize", "specification")
WORD = re.compile(r"[A-Za-z][a-z']*[A-Za-z']|\ba\b")
FEWEST_WORDS = 3
INCLUDE = re.compile(r"#include[^\n]*")
COMMENT = re.compile(r"//[^\n]*")
TOKEN = re.compile(
    r"//[^\n]*|R\"\((?P<raw>.*?)\)\"|\"(?P<text>(?:[^\"\\\n]|\\.)*)\"|'(?:[^'\\]|\\.)+'"
    r"|\b[0-9](?:'?\w)*|[(){};]",
    re.DOTALL,
)
# Names of three words in JSON: of a verdict, of what a check holds a tensor against, and of a
# tensor that the collector cannot name.
NAMES = {
    "nothing to explain",
    "recorded by every rank",
    "sum of raw gradients",
    "a tensor from outside",
}
# What stands before the bracket of a Message and of an error, which require_format() throws.
MESSAGE = re.compile(r"\bMessage(?:\s+\w+)?$")
ERROR = re.compile(r"\b(?:[a-z_]*(?:error|Error)|require_format)$")
# Functions that take a Message.
TAKES_MESSAGE = re.compile(
    r"\b(?:render|rendered_if_complete|rendered_for|cause_of|cause_that_leaves)$"
)
RETURNS_MESSAGE = re.compile(
    r"^(?:std::optional<)?(?:base::)?Message>? [\w:]+\([^;{]*\)[^;{]*\{$", re.MULTILINE
)
CONSTANT = re.compile(r"constexpr std::string_view (k\w+)\s*=\s*$")


@dataclass
class Literal:
    """A literal, with those side by side joined."""

    at: int
    text: str
    # The open brackets around it, the innermost last: which, and what stands before each.
    around: list[tuple[str, str]]
    before: str  # since the last bracket or semicolon


def literals(code: str) -> Iterator[Literal]:
    around: list[tuple[str, str]] = []
    joined: Literal | None = None
    since = 0
    end = 0

    def told(start: int, stop: int) -> str:
        return COMMENT.sub("", code[start:stop]).strip()

    for token in TOKEN.finditer(code):
        found = token.group()
        if found.startswith("//") or found[0] == "'" or found[0].isdigit():
            continue
        if found[0] in '"R':
            text = token["raw"] if token["text"] is None else token["text"]
            if joined and not told(end, token.start()):
                joined.text += text
            else:
                if joined:
                    yield joined
                joined = Literal(token.start(), text, list(around), told(since, token.start()))
            end = token.end()
            continue
        if joined:
            yield joined
            joined = None
        if found in "({":
            around.append((found, told(since, token.start())))
        elif found in ")}" and around:
            around.pop()
        since = token.end()
    if joined:
        yield joined


def is_sentence(text: str) -> bool:
    if text in NAMES:
        return False
    # "mask_or_rows" is a name.
    return len(WORD.findall(re.sub(r"\w*_\w*", "", text))) >= FEWEST_WORDS


def returns_of_messages(code: str) -> list[range]:
    """Where the bodies of functions that return a Message stand."""
    return [
        range(found.end(), code.find("\n}", found.end()))
        for found in RETURNS_MESSAGE.finditer(code)
    ]


def is_rendered(constant: str, sources: dict[str, str]) -> bool:
    """Whether a constant is the text of a Message somewhere, and a piece of a text nowhere."""
    rendered = re.compile(rf"\b(?:render|Message)\w*\(?\{{{constant}\b")
    joined = re.compile(rf"\bconcat\([^;]*\b{constant}\b|\+ {constant}\b|\b{constant} \+")
    return any(rendered.search(code) for code in sources.values()) and not any(
        joined.search(code) for code in sources.values()
    )


def is_template(literal: Literal, bodies: list[range], sources: dict[str, str]) -> bool:
    constant = CONSTANT.search(literal.before)
    if constant:
        return is_rendered(constant.group(1), sources)
    if not literal.around or literal.around[-1][0] != "{":
        return False
    before = literal.around[-1][1]
    if MESSAGE.search(before):
        return True
    if re.search(r"\breturn$", before):
        return any(literal.at in body for body in bodies)
    # An argument: the braces follow the bracket of the call, or a comma.
    call = literal.around[-2] if len(literal.around) > 1 else ("", "")
    is_argument = call[0] == "(" and (not before or before.endswith(","))
    return is_argument and TAKES_MESSAGE.search(call[1]) is not None


def is_in_error(literal: Literal) -> bool:
    return any(kind == "(" and ERROR.search(before) for kind, before in literal.around)


def violations(root: Path, rooms: tuple[str, ...] = ROOMS) -> list[str]:
    found = []
    templates = 0
    sources = {
        path: INCLUDE.sub("", text)
        for path, text in Sources(root).texts.items()
        if path.startswith(tuple(f"lib/{room}/" for room in rooms))
    }
    for path, code in sources.items():
        bodies = returns_of_messages(code)
        for literal in literals(code):
            if not is_sentence(literal.text) or is_in_error(literal):
                continue
            templates += 1
            place = f'{path}:{code.count(chr(10), 0, literal.at) + 1}: "{literal.text}"'
            if not is_template(literal, bodies, sources):
                found.append(f"{place} is no template")
            elif literal.text != literal.text.strip():
                found.append(f"{place} is a piece of a sentence")
    if templates < 20:
        found.append(f"only {templates} templates: is {root} the repository?")
    return found


if __name__ == "__main__":
    sys.exit(run(violations, "pieces of sentences outside templates and errors"))
