"""Checks the imports of the Python package: no circle, and no package imports a later one.

Every import statement counts, also one inside a function or under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "lib" / "torch" / "ttrace_torch"

# The packages and top-level modules from the ground up: each may import those before it.
ORDER = (
    "version",
    "errors",
    "variables",
    "base",
    "compare",
    "report",
    "layout",
    "init",
    "perturb",
    "rewrite",
    "capture",
    "optimizer",
    "write",
    "frameworks",
    "specification",
    "config",
    "job",
    "checks",
    "copies",
    "kept",
    "traced_updates",
    "traced_steps",
    "tracer",
    "inactive",
    "assembly",
    "api",
    "trainer_samples",
    "trainer",
    "lightning",
    "torchtitan",
    "torchtitan_job",
    "union",
    "private_names",
    "doctor",
    "matrix",
    "ray",
    "testing",
    "__main__",
    "collector",
    "__init__",
)
LONGEST_FILE = 400


def modules_of(package: Path) -> dict[str, Path]:
    """Dotted name below the package -> file; a package is named like its folder."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if len(parts) > 1 and parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


def imports_of(package: Path) -> dict[str, set[str]]:
    """Module -> the modules of the same package that it imports."""
    modules = modules_of(package)
    return {
        name: {
            target
            for imported in _imported(path, package)
            for target in [_module(imported, modules)]
            if target is not None and target != name
        }
        for name, path in modules.items()
    }


def _imported(path: Path, package: Path) -> Iterator[str]:
    """The dotted names that a file imports from the package, without the package's own name."""
    prefix = package.name + "."
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            here = path.relative_to(package.parent).parts[: -node.level]
            start = ".".join([*here, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name == package.name:
                yield "__init__"
            elif name.startswith(prefix):
                yield name.removeprefix(prefix)


def _module(imported: str, modules: Mapping[str, Path]) -> str | None:
    """The module that an import reads: the longest dotted prefix that is one."""
    parts = imported.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in modules:
            return name
    return "__init__" if "__init__" in modules else None


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """One circle of imports for each module that a depth-first search finds on its own path."""
    found: list[list[str]] = []
    finished: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in finished:
            for target in sorted(imports[name]):
                visit(target, [*path, name])
            finished.add(name)

    for name in sorted(imports):
        visit(name, [])
    return found


def violations(package: Path, order: Sequence[str]) -> list[str]:
    """One sentence for each circle and for each import that points to a later package."""
    imports = imports_of(package)
    found = ["import circle: " + " -> ".join(circle) for circle in circles(imports)]
    rooms = {name.split(".")[0] for name in imports}
    found += [f"{room}: not in the order of packages" for room in sorted(rooms - set(order))]
    found += [f"{room}: in the order, but not there" for room in order if room not in rooms]
    for name, targets in imports.items():
        own = name.split(".")[0]
        for target in sorted(targets):
            other = target.split(".")[0]
            if {own, other} <= set(order) and order.index(other) > order.index(own):
                found.append(f"{name} imports {target}, but {other} comes after {own}")
    return found


def test_packages_import_only_earlier_ones():
    assert violations(PACKAGE, ORDER) == []


def test_no_file_is_too_long():
    long = {
        name: lines
        for name, path in modules_of(PACKAGE).items()
        if (lines := path.read_text().count("\n")) > LONGEST_FILE
    }
    assert long == {}


def planted(folder: Path, files: Mapping[str, str]) -> Path:
    """A package of `files` (path -> text) in `folder`."""
    package = folder / "made_up"
    for name, text in {"__init__.py": "", "low/__init__.py": "", "high/__init__.py": ""}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, text in files.items():
        (package / name).write_text(text)
    return package


LOW_FIRST = ("low", "high", "__init__")


def test_a_sound_package_passes(tmp_path):
    package = planted(tmp_path, {"low/one.py": "", "high/two.py": "import made_up.low.one\n"})
    assert violations(package, LOW_FIRST) == []


@pytest.mark.parametrize(
    "files, message",
    [
        (
            {
                "low/one.py": "from made_up.low import two\n",
                "low/two.py": "def late():\n    from made_up.low.one import thing\n",
            },
            "import circle: low.one -> low.two -> low.one",
        ),
        (
            {
                "low/one.py": "from typing import TYPE_CHECKING\n"
                "if TYPE_CHECKING:\n    from .two import Thing\n",
                "low/two.py": "import made_up.low.one\n",
            },
            "import circle: low.one -> low.two -> low.one",
        ),
        (
            {"low/one.py": "from made_up.high.two import thing\n", "high/two.py": ""},
            "low.one imports high.two, but high comes after low",
        ),
        ({"stray.py": ""}, "stray: not in the order of packages"),
    ],
)
def test_a_violation_is_found(tmp_path, files, message):
    assert message in violations(planted(tmp_path, files), LOW_FIRST)
