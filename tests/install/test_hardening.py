"""What was built has the checks that cmake/TtraceBuild.cmake asks for, and a file that lacks one is
told apart."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.ttrace_cli import ttrace_binary
from support.wheels import ROOT

sys.path.insert(0, str(ROOT / "scripts" / "wheel"))
import hardening

BUILD = ttrace_binary().parent
FLAGS = [
    "-O2",
    "-fPIE",
    "-pie",
    "-fstack-protector-strong",
    "-fcf-protection",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
    "-D_GLIBCXX_ASSERTIONS",
    "-Wl,-z,relro,-z,now",
]
# A copy into an array of the stack, an access of a vector, and functions that others could jump to.
PROGRAM = """
#include <cstdio>
#include <cstring>
#include <vector>
template <int N> [[gnu::noinline]] int more(int x) { return x + N; }
int (*const volatile jumps[])(int) = {more<0>, more<1>, more<2>, more<3>, more<4>, more<5>,
                                      more<6>, more<7>, more<8>, more<9>, more<10>, more<11>};
int main(int count, char** words) {
  char name[16];
  std::strcpy(name, words[0]);
  const std::vector<int> numbers(count, 1);
  std::printf("%s %d\\n", name, jumps[count % 12](numbers[count - 1]));
}
"""


def cached(name: str) -> str:
    """A setting of the build that the program under test comes from."""
    cache = BUILD / "CMakeCache.txt"
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    found = re.search(rf"^{name}:\w+=(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def compiler() -> str:
    return cached("CMAKE_CXX_COMPILER") or "c++"


def why_not() -> str:
    """Why nothing can be said of this build, or ""."""
    if shutil.which("readelf") is None:
        return "readelf is not installed"
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return f"the checks are those of x86-64 Linux, this is {platform.platform()}"
    if cached("TTRACE_SANITIZE") or cached("TTRACE_HARDENING") == "OFF":
        return "this build was asked for without hardening"
    if cached("CMAKE_BUILD_TYPE") == "Debug":
        return "the C library checks copies in optimised code alone"
    if shutil.which(compiler()) is None:
        return f"{compiler()}, by which to compile files that lack a check, is not installed"
    version = subprocess.run([compiler(), "--version"], capture_output=True, text=True).stdout
    if not re.search(r"clang|Free Software Foundation", version):
        return f"{compiler()} is neither GCC nor clang"
    return ""


REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def built(folder: Path, *flags: str) -> Path:
    source, program = folder / "twin.cpp", folder / "twin"
    source.write_text(PROGRAM)
    subprocess.run([compiler(), *flags, source, "-o", program], check=True, timeout=60)
    return program


def test_the_program_lacks_nothing() -> None:
    assert hardening.lacks(ttrace_binary()) == set()


@pytest.mark.parametrize("name", ["libttrace.so", "ttrace_cuda.so", "ttrace_mpi.so"])
def test_a_library_lacks_nothing(name: str) -> None:
    if not (BUILD / name).exists():
        pytest.skip(f"this build made no {name}")
    # Of the modules the C++ library has little, and the module of MPI copies nothing.
    small = {hardening.ASSERTIONS, hardening.FORTIFY, hardening.STACK, hardening.BRANCHES}
    assert hardening.lacks(BUILD / name) <= (set() if name == "libttrace.so" else small)


def test_every_object_of_ours_is_checked() -> None:
    archives = sorted(BUILD.glob("lib/**/libttrace_*.a"))
    if not archives:
        pytest.skip("the program under test is not in a build folder")
    lacking = {path.name: hardening.lacks_in_objects(path) for path in archives}
    assert [name for name, what in lacking.items() if hardening.BRANCHES in what] == []
    assert [name for name, what in lacking.items() if hardening.STACK in what] == []
    # Not every room copies, and not every one has vectors.
    assert not set.intersection(*lacking.values())


def test_a_program_with_every_flag_lacks_nothing(tmp_path: Path) -> None:
    assert hardening.lacks(built(tmp_path, *FLAGS)) == set()


@pytest.mark.parametrize(
    ("without", "lacking"),
    [
        (["-fno-pie", "-no-pie"], hardening.PIE),
        (["-Wl,-z,norelro"], hardening.RELRO),
        (["-Wl,-z,lazy"], hardening.BIND_NOW),
        (["-fno-stack-protector"], hardening.STACK),
        (["-U_FORTIFY_SOURCE"], hardening.FORTIFY),
        (["-U_GLIBCXX_ASSERTIONS"], hardening.ASSERTIONS),
        (["-fcf-protection=none"], hardening.BRANCHES),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_missing_flag_is_told(without: list[str], lacking: str, tmp_path: Path) -> None:
    assert hardening.lacks(built(tmp_path, *FLAGS, *without)) == {lacking}


@pytest.mark.parametrize(
    ("without", "lacking"),
    [
        ("", set()),
        ("-fno-stack-protector", {hardening.STACK}),
        ("-U_FORTIFY_SOURCE", {hardening.FORTIFY}),
        ("-U_GLIBCXX_ASSERTIONS", {hardening.ASSERTIONS}),
        ("-fcf-protection=none", {hardening.BRANCHES}),
    ],
)
def test_a_missing_flag_is_told_of_objects(without: str, lacking: set[str], tmp_path: Path) -> None:
    (tmp_path / "twin.cpp").write_text(PROGRAM)
    flags = [flag for flag in FLAGS if not flag.startswith(("-pie", "-Wl"))]
    compile_it = [compiler(), *flags, *filter(None, [without]), "-c", "twin.cpp"]
    for command in (compile_it, ["ar", "rcs", "twin.a", "twin.o"]):
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert hardening.lacks_in_objects(tmp_path / "twin.a") == lacking


def test_the_tool_names_what_a_file_lacks(tmp_path: Path) -> None:
    program = built(tmp_path, *FLAGS, "-fno-stack-protector")
    tool = [sys.executable, str(ROOT / "scripts/wheel/hardening.py")]
    done = subprocess.run([*tool, program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{program} lacks {hardening.STACK}\n"
