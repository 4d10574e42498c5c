"""Every Python example of a page runs, or is valid against the collector it calls."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ttrace_torch as tt
from pages.blocks import Block, blocks


class Model(nn.Module):
    """Two layers; the loss is the mean of the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        for layer in self.layers:
            ids = layer(ids)
        return ids.mean()


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the examples have from the lines around them, and a variable that makes them record."""
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    monkeypatch.chdir(tmp_path)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(2, 8)
    return {"model": model, "optimizer": optimizer, "steps": 1, "batch": batch, "ids": batch} | {
        "labels": None
    }


def candidate_side(diff: str) -> str:
    """The code after a diff was applied."""
    return "".join(line[1:] for line in diff.splitlines(True) if not line.startswith("-"))


def recorded(tmp_path: Path) -> bool:
    return (tmp_path / "run.h5").stat().st_size > 0


LOOPS = [
    block
    for language, change in (("python", str), ("diff", candidate_side))
    for block in blocks(language)
    if block.page in ("README.md", "lib/torch/README.md") and "tracer.close()" in block.text
]


@pytest.mark.parametrize("block", LOOPS, ids=str)
def test_a_loop_records_its_step(block: Block, scope: dict[str, Any], tmp_path: Path) -> None:
    code = candidate_side(block.text) if block.language == "diff" else block.text
    exec(compile(code, str(block), "exec"), scope)
    assert recorded(tmp_path)
    assert scope["tracer"].failed is None


def code_of(block: Block) -> str:
    """What a block leaves out ("...") replaced by nothing."""
    code = candidate_side(block.text) if block.language == "diff" else block.text
    code = re.sub(r", \.\.\.\)", ")", code)
    if re.match(r"with .*:\n$", code):
        code += "    pass\n"
    return code


def called(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Calls of the collector (`tt.name` or `name` of it) and of a tracer."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if re.fullmatch(r"(tt|tracer)(\.\w+)+", name) or name in ("Layout", "Shard", "Partial"):
                found.append((name, node))
    return found


def target(name: str) -> Any:
    if name.startswith("tracer."):
        return getattr(type(tt.trace(Model(), out=None)), name.split(".")[1])
    value: Any = tt
    for part in name.removeprefix("tt.").split("."):
        value = getattr(value, part)
    return value


CODE = [block for language in ("python", "diff") for block in blocks(language)]


@pytest.mark.parametrize("block", CODE, ids=str)
def test_its_calls_are_those_that_the_collector_takes(block: Block) -> None:
    tree = ast.parse(code_of(block))
    for name, call in called(tree):
        wanted = inspect.signature(target(name))
        positional: list[Any] = [None] * len(call.args)
        if name.startswith("tracer."):
            positional.insert(0, None)  # self
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            continue
        keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
        wanted.bind_partial(*positional, **keywords)  # TypeError names what is not there


def test_examples_call_the_collector() -> None:
    assert sum(len(called(ast.parse(code_of(block)))) for block in CODE) > 40
