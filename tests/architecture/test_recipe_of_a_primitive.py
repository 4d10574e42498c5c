"""Plays the recipe of a primitive (lib/README.md) in a copy of the tree and counts the files.

The copy gets `hypot`, which torch has and specifications lack. With TTRACE_LONG=1 the copy is also
built, which takes minutes, and the tests of all primitives run on it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.ttrace_cli import REPOSITORY

FAMILY = "lib/specification/primitives/elementwise.cpp"
PAGE = "schemas/specification-v1.md"
SCHEMA = "schemas/specification.schema.json"
TRANSLATION = "lib/torch/ttrace_torch/specification/operations/elementwise.py"
CASES = "tests/specification/primitive_cases.py"
WRITTEN_CASES = "tests/specification/primitive_cases.json"
# File: the text that the new one follows, and the new one.
RECIPE = {
    FAMILY: (
        'commutative(of_xy<Call<smaller>>("minimum", kExact)),\n',
        '      commutative(of_xy<Call<base::hypotenuse>>("hypot")),\n',
    ),
    PAGE: ("`minimum`", " `hypot`"),
    SCHEMA: ('"minimum",', ' "hypot",'),
    TRANSLATION: ('    "minimum": "minimum",\n', '    "hypot": "hypot",\n'),
    CASES: ('"minimum": torch.minimum,', ' "hypot": torch.hypot,'),
}
# Writes the cases, holds the page against the schema, and records a step of a model.
PLAY = f"""
import contextlib, json, runpy, torch, ttrace_torch as tt
from conformance import test_specification_schema
with open({WRITTEN_CASES!r}, "w") as file, contextlib.redirect_stdout(file):
    runpy.run_path({CASES!r})
test_specification_schema.test_schema_and_page_have_the_same_primitives()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.hypot(self.one(x), self.two(x))

found = tt.specify(Model, torch.ones(2, 4), loss=torch.sum)
print(json.dumps({{
    "cases": sum(case["node"][0] == "hypot" for case in json.load(open({WRITTEN_CASES!r}))),
    "used": sorted({{node[0] for pattern in found["patterns"] for node in pattern["nodes"]}}),
    "opaque": sorted(found.get("opaque", {{}})),
}}))
"""
FOLDERS = ("lib", "apps", "cmake", "schemas", "tests", "testdata", "scripts")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree with one more primitive."""
    copy = tmp_path_factory.mktemp("recipe")
    built = shutil.ignore_patterns("__pycache__", "*.h5", ".mypy_cache", ".ruff_cache")
    for folder in FOLDERS:
        shutil.copytree(REPOSITORY / folder, copy / folder, ignore=built)
    for file in ("CMakeLists.txt", "LICENSE", "README.md"):
        shutil.copy(REPOSITORY / file, copy)
    for file, (before, new) in RECIPE.items():
        text = (copy / file).read_text()
        assert text.count(before) == 1, f"{file} has not one {before!r}"
        (copy / file).write_text(text.replace(before, before + new))
    return copy


def output_of(tree: Path, script: Path, *arguments: Path) -> str:
    done = subprocess.run(
        [sys.executable, script, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}/lib/torch:{tree}/tests"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def played(tree):
    """What the copy's Python says of the new primitive; its cases are written on the way."""
    script = tree / "play.py"
    script.write_text(PLAY)
    return json.loads(output_of(tree, script))


def test_recipe_names_every_file_that_it_takes():
    recipe = (REPOSITORY / "lib" / "README.md").read_text()
    recipe = recipe.split("### A primitive\n")[1].split("\n### ")[0]
    for named in (
        "specification/primitives/<family>.cpp",
        "specification.schema.json",
        "torch/ttrace_torch/specification/operations/",
        CASES,
    ):
        assert named in recipe, named


def test_no_other_source_knows_the_new_primitive(tree, played):
    assert played["cases"] > 0
    output_of(tree, tree / "tests" / "architecture" / "check_primitives.py", tree)


def test_recorded_steps_use_the_new_primitive(played):
    assert "hypot" in played["used"]
    assert played["opaque"] == []


@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler")
def test_family_compiles(tree):
    subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Ilib", FAMILY], cwd=tree, check=True)


@pytest.mark.skipif(os.environ.get("TTRACE_LONG") != "1", reason="builds the copy")
def test_every_cut_of_the_new_primitive_gives_its_cut(tree):
    build = tree / "build"
    configure = ["cmake", "-S", tree, "-B", build, "-DTTRACE_BUILD_TESTS=ON"]
    for command in (
        [*configure, "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=16"],
        ["cmake", "--build", build, "-j2", "--target", "ttrace_tests"],
        [build / "tests" / "ttrace_tests", "*primitive*"],
    ):
        subprocess.run(command, check=True)
