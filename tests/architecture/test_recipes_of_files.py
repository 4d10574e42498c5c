"""Plays the recipes of a report format and of a storage (lib/README.md) in a copy of the tree: each
changes two files outside of its own, and the checks of the architecture know it by them.

With TTRACE_LONG=1 the copy is also built, which takes minutes, and the program has both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.ttrace_cli import REPOSITORY

# A format that is the first line of the JSON.
FORMAT = {
    "lib/report/first_row.h": """// The sentence of an answer alone.
#pragma once

#include <string>

#include "report/page/page_answer.h"

namespace ttrace::report {

std::string first_row(const PageAnswer& answer);

}  // namespace ttrace::report
""",
    "lib/report/first_row.cpp": """#include "report/first_row.h"

namespace ttrace::report {

std::string first_row(const PageAnswer& answer) { return answer.headline + "\\n"; }

}  // namespace ttrace::report
""",
}
FORMAT_CHANGES = {
    "lib/report/file_formats.cpp": [
        ('#include "report/junit.h"\n', '#include "report/first_row.h"\n'),
        (" junit},\n", '    {"first-row", "also write the sentence alone", first_row},\n'),
    ],
    "lib/report/CMakeLists.txt": [(" first_line.cpp", " first_row.cpp")],
}
# A storage whose files no trace can be read from.
STORAGE = {
    "lib/trace/sealed/storage.h": """// Files that are recognised and not read.
#pragma once

#include "trace/rank_file.h"

namespace ttrace::trace::sealed {

StorageKind storage();

}  // namespace ttrace::trace::sealed
""",
    "lib/trace/sealed/storage.cpp": """#include "trace/sealed/storage.h"

#include "base/error.h"

namespace ttrace::trace::sealed {

StorageKind storage() {
  return {".sealed", [](std::string_view head, std::uint64_t) { return head == "sealed"; },
          [](const std::string& path) -> std::shared_ptr<const RankFile> {
            throw base::input_error(path, ": is sealed; open it first");
          }};
}

}  // namespace ttrace::trace::sealed
""",
}
STORAGE_CHANGES = {
    "lib/trace/open/storages.cpp": [
        (
            '#include "trace/safetensors/tensor_file.h"\n',
            '#include "trace/sealed/storage.h"\n',
        ),
        ("safetensors::storage()", ", sealed::storage()"),
    ],
    "lib/trace/CMakeLists.txt": [
        (
            "add_subdirectory(hdf5)\n",
            "\nttrace_module(sealed\n  SOURCES sealed/storage.cpp\n  DEPENDS base tensor trace)\n",
        ),
        ("DEPENDS base tensor trace hdf5 safetensors", " sealed"),
    ],
}
FOLDERS = ("lib", "apps", "cmake", "schemas", "tests", "testdata", "scripts")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with one more format and one more storage."""
    copy = tmp_path_factory.mktemp("recipes")
    left_out = shutil.ignore_patterns("__pycache__", ".mypy_cache", ".ruff_cache")
    for folder in FOLDERS:
        shutil.copytree(REPOSITORY / folder, copy / folder, ignore=left_out)
    for file in ("CMakeLists.txt", "LICENSE", "README.md"):
        shutil.copy(REPOSITORY / file, copy)
    for file, text in (FORMAT | STORAGE).items():
        (copy / file).parent.mkdir(exist_ok=True)
        (copy / file).write_text(text)
    for file, changes in (FORMAT_CHANGES | STORAGE_CHANGES).items():
        text = (copy / file).read_text()
        for before, new in changes:
            assert text.count(before) == 1, f"{file} has not one {before!r}"
            text = text.replace(before, before + new)
        (copy / file).write_text(text)
    return copy


@pytest.mark.parametrize("changes", [FORMAT_CHANGES, STORAGE_CHANGES], ids=["format", "storage"])
def test_a_recipe_changes_two_files(changes: dict[str, list[tuple[str, str]]]) -> None:
    assert len(changes) == 2


@pytest.mark.parametrize("check", ["layers", "names"])
def test_the_checks_know_both(tree: Path, check: str) -> None:
    script = tree / "tests" / "architecture" / f"check_{check}.py"
    done = subprocess.run([sys.executable, script, tree], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler")
@pytest.mark.parametrize("file", ["lib/report/file_formats.cpp", "lib/trace/open/storages.cpp"])
def test_the_tables_compile(tree: Path, file: str) -> None:
    subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Ilib", file], cwd=tree, check=True)


@pytest.mark.skipif(os.environ.get("TTRACE_LONG") != "1", reason="builds the copy")
def test_the_program_has_both(tree: Path) -> None:
    build = tree / "build"
    configure = ["cmake", "-S", tree, "-B", build, "-DTTRACE_BUILD_TESTS=OFF"]
    for command in (
        [*configure, "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=16"],
        ["cmake", "--build", build, "-j2", "--target", "ttrace"],
    ):
        subprocess.run(command, check=True)
    (tree / "run.sealed").write_text("sealed")
    runs = tree / "testdata" / "tiny_gpt"
    compare = [build / "ttrace", "compare", runs / "ref.h5"]
    done = subprocess.run(
        [*compare, runs / "tp2sp", "--first-row", tree / "row"], capture_output=True
    )
    assert done.returncode == 0
    assert "tensors agree" in (tree / "row").read_text()
    done = subprocess.run([*compare, tree / "run.sealed"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "run.sealed: is sealed; open it first" in done.stderr
