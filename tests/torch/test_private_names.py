"""No private name of torch or of a framework is touched without standing in the list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ttrace_torch.private_names import PRIVATE_NAMES, PrivateName, is_there, report

PACKAGE = Path(__file__).resolve().parents[2] / "lib" / "torch" / "ttrace_torch"
# Of the standard library: named tuples, the stack, and how a process ends.
STANDARD = {"_replace", "_asdict", "_fields", "_getframe", "_exit", "_clear", "_run_exitfuncs"}
# A member of another object of the same class.
OWN = {"_add"}
ASKING = ("getattr", "hasattr", "setattr")


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


def touched(tree: ast.AST) -> Iterator[str]:
    """The private names that code takes from objects and modules of others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
                yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ASKING and len(node.args) > 1:
                asked = node.args[1]
                if isinstance(asked, ast.Constant) and is_private(asked.value):
                    yield asked.value
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            private = any(is_private(part) for part in (node.module or "").split("."))
            yield from (one.name for one in node.names if private or is_private(one.name))


def known() -> set[str]:
    names = {name for one in PRIVATE_NAMES for name in (one.name, one.instead)}
    return names | {name.rpartition(".")[2] for name in names} | {"_C"} | STANDARD | OWN


def test_every_private_name_in_the_package_is_listed() -> None:
    sources = sorted(PACKAGE.rglob("*.py"))
    assert len(sources) > 100
    unlisted = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in sources
        if path.name != "private_names.py"
        for name in touched(ast.parse(path.read_text()))
        if name not in known()
    }
    assert not unlisted


def test_every_listed_name_is_used() -> None:
    text = "".join(
        path.read_text()
        for path in PACKAGE.rglob("*.py")
        if path.name != "private_names.py" and not path.stem.endswith("_api")
    )
    assert not {one.name for one in PRIVATE_NAMES if one.name.rpartition(".")[2] not in text}


def test_a_new_private_name_is_seen() -> None:
    code = """
import torch
from torch._dynamo import reset
x = torch._planted_module.f(y._planted, self._own)
hasattr(x, "_planted_too")
"""
    found = set(touched(ast.parse(code)))
    assert found == {"_planted_module", "_planted", "_planted_too", "reset"}


def test_the_installed_torch_has_all_of_them() -> None:
    assert [one for one in PRIVATE_NAMES if one.package == "torch" and not is_there(one)] == []


def test_what_is_read_from_frameworks_is_listed() -> None:
    listed = {(one.package, one.name) for one in PRIVATE_NAMES}
    assert ("megatron-core", "param_index_map") in listed
    assert ("megatron-core", "get_expert_model_parallel_rank") in listed
    assert ("deepspeed", "averaged_gradients") in listed
    assert ("megatron-fsdp", "global_data_index") in listed


def test_a_name_that_a_release_lacks_is_told() -> None:
    gone = PrivateName("_gone", "torch.nn.Module", "something", instead="_gone_too")
    moved = PrivateName("_version", "torch.no_such_module", "views")
    renamed = PrivateName("_gone", "torch.Tensor", "views", instead="_version")
    absent = PrivateName("_x", "nowhere", "nothing", package="no-such-package")
    lines, lacks = report([gone, moved, renamed, absent])
    assert lacks
    assert lines[0].endswith("has 1 of 3 names")
    assert lines[1:] == [
        "  lacks _gone of torch.nn.Module: something",
        "  lacks _version of torch.no_such_module: views",
        "no-such-package: not installed, 1 names not checked",
    ]
    assert report([renamed])[1] is False
