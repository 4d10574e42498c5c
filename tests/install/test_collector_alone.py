"""The wheel without the program (TTRACE_WITHOUT_CLI), built by pip from a tree as a user has it: no
compiler, no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from support.wheels import (
    COLLECTOR,
    PIP,
    ROOT,
    build,
    build_without_pip,
    built_version,
    modules_below,
    names_in,
    own_version,
    text_in,
)


def copied_collector(folder: Path) -> Path:
    tree = folder / "tree" / "lib" / "torch"
    shutil.copytree(COLLECTOR, tree, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(COLLECTOR, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    return Parser().parsestr(text_in(wheel, ".dist-info/METADATA"))


def test_one_wheel_serves_every_machine(wheel: Path) -> None:
    assert wheel.name == f"ttrace_torch-{built_version()}-py3-none-any.whl"


def test_metadata(metadata: Message) -> None:
    assert metadata["Name"] == "ttrace-torch"
    assert metadata["Version"] == built_version()
    assert metadata["License-Expression"] == "Apache-2.0"
    required = metadata.get_all("Requires-Dist") or []
    # A job has its own torch, and a machine that only compares needs none.
    assert [line for line in required if line.startswith("torch")] == [
        'torch>=2.1; extra == "torch"'
    ]


def test_the_licence_is_inside(wheel: Path) -> None:
    assert text_in(wheel, ".dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_the_modules_are_those_of_the_tree(wheel: Path) -> None:
    packed = {name for name in names_in(wheel) if name.startswith("ttrace_torch/")}
    assert packed == modules_below(COLLECTOR / "ttrace_torch")


def test_a_deleted_module_never_ships(tmp_path: Path) -> None:
    tree = copied_collector(tmp_path)
    # What setuptools left, which earlier versions were built with.
    stale = tree / "build" / "lib" / "ttrace_torch" / "stale.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    deleted = tree / "ttrace_torch" / "soon_gone.py"
    deleted.touch()
    assert "ttrace_torch/soon_gone.py" in names_in(build_without_pip(tree, tmp_path / "before"))
    deleted.unlink()
    names = names_in(build_without_pip(tree, tmp_path / "after"))
    assert {name for name in names if name.startswith("ttrace_torch/")} == modules_below(
        tree / "ttrace_torch"
    )
    assert not [name for name in names if "stale" in name]


def test_each_commit_has_a_version_of_its_own(tmp_path: Path) -> None:
    """pip keeps an installed wheel of the same version."""
    tree = copied_collector(tmp_path)
    root = tmp_path / "tree"

    def git(*command: str) -> None:
        name = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        subprocess.run(["git", "-C", str(root), *name, *command], check=True, capture_output=True)

    def built(folder: str) -> Path:
        return build_without_pip(tree, tmp_path / folder)

    assert built("no checkout").name.split("-")[1] == own_version()
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=one")
    wheels = [built("one")]
    (tree / "ttrace_torch" / "added.py").touch()
    git("add", ".")
    git("commit", "--quiet", "--message=two")
    wheels.append(built("two"))
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = [*PIP, "--python", str(environment / "bin" / "python")]
    for count, wheel in enumerate(wheels, start=1):
        assert wheel.name.startswith(f"ttrace_torch-{own_version()}+{count}.g")
        install = [*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
        subprocess.run(install, check=True, timeout=120)
    assert list(environment.glob("lib/python3*/site-packages/ttrace_torch/added.py"))
    git("tag", f"v{own_version()}")
    assert built("tagged").name.split("-")[1] == own_version()


def test_the_command_says_what_was_left_out(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    command = [*PIP, "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*command, str(wheel)], check=True, timeout=120)
    ran = subprocess.run(
        [str(target / "bin" / "ttrace"), "compare", "ref.h5", "run"],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 2
    assert "TTRACE_WITHOUT_CLI" in ran.stderr
    assert "pip install --force-reinstall --no-deps ./lib/torch" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize(
    ("value", "alone"),
    [("1", True), ("yes", True), ("", False), ("0", False), ("off", False), (None, False)],
)
def test_only_the_variable_leaves_the_program_out(
    value: str | None, alone: bool, tmp_path: Path
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TTRACE_WITHOUT_CLI"}
    if value is not None:
        environment["TTRACE_WITHOUT_CLI"] = value
    prepare = (
        "import sys; from scikit_build_core.build import prepare_metadata_for_build_wheel as p;"
        "p(sys.argv[1])"
    )
    subprocess.run(
        [sys.executable, "-c", prepare, str(tmp_path)],
        cwd=COLLECTOR,
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (made,) = tmp_path.glob("*.dist-info")
    scripts = made / "entry_points.txt"
    # With the program, bin/ttrace is the program: no entry point of Python may take its name.
    assert scripts.exists() == alone
    assert ("any" in (made / "WHEEL").read_text().split("-")[-1]) == alone
