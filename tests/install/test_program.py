"""Building the program with pip: one version, a complete sdist, and a word for what is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.ttrace_cli import run_ttrace
from support.wheels import (
    COLLECTOR,
    ROOT,
    build,
    built_version,
    modules_below,
    names_in,
    own_version,
)


def configure(tree: Path, build_folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cmake", "-S", str(tree), "-B", str(build_folder), "-DTTRACE_BUILD_TESTS=OFF", *options],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist, made as scripts/build_wheel.sh makes it."""
    folder = tmp_path_factory.mktemp("sdist")
    stage = folder / "stage"
    subprocess.run([sys.executable, ROOT / "scripts/wheel/stage.py", str(stage)], check=True)
    pack = "import sys; from scikit_build_core.build import build_sdist as b; b(sys.argv[1])"
    subprocess.run([sys.executable, "-c", pack, str(folder)], cwd=stage, check=True)
    (packed,) = folder.glob("*.tar.gz")
    assert packed.name == f"ttrace_torch-{built_version()}.tar.gz"
    with tarfile.open(packed) as opened:
        opened.extractall(folder / "tree")
    return folder / "tree" / f"ttrace_torch-{built_version()}"


def test_program_and_collector_have_one_version() -> None:
    shown = run_ttrace("--version")
    assert shown.returncode == 0
    assert own_version() in shown.stdout.split()


def test_a_missing_package_is_named_with_the_line_that_installs_it(tmp_path: Path) -> None:
    missing = ["-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON"]
    configured = configure(ROOT, tmp_path / "build", *missing)
    assert configured.returncode != 0
    said = re.sub(r"\s+", " ", configured.stderr)
    assert "not installed, or too old: CLI11, HDF5." in said
    assert "apt-get install libcli11-dev libhdf5-dev" in said
    assert "TTRACE_WITHOUT_CLI=1 pip install ./lib/torch" in said


def test_the_sdist_configures_with_the_same_version(sdist: Path, tmp_path: Path) -> None:
    configured = configure(sdist, tmp_path / "build")
    assert configured.returncode == 0, configured.stderr
    cache = (tmp_path / "build" / "CMakeCache.txt").read_text()
    assert f"CMAKE_PROJECT_VERSION:STATIC={own_version()}\n" in cache


def test_the_sdist_makes_the_wheel_of_the_tree(sdist: Path, tmp_path: Path) -> None:
    names = names_in(build(sdist, tmp_path / "of_sdist"))
    assert {name for name in names if name.startswith("ttrace_torch/")} == modules_below(
        COLLECTOR / "ttrace_torch"
    )
    assert sorted(names) == sorted(names_in(build(COLLECTOR, tmp_path / "of_tree")))


def test_the_sdist_has_every_source_of_the_program(sdist: Path) -> None:
    for folder in ("lib", "apps", "cmake"):
        of_tree = {
            path.relative_to(ROOT).as_posix()
            for end in ("*.cpp", "*.h", "*.cu", "*.txt", "*.cmake", "*.map")
            for path in (ROOT / folder).rglob(end)
        }
        lacking = {name for name in of_tree if not (sdist / name).exists()}
        assert not lacking
