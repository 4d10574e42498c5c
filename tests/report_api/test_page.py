"""The example of the page runs, and calls what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages.blocks import REPOSITORY, blocks
from pages.folders import fresh

from ttrace_torch import report

PAGE = "lib/torch/docs/report.md"
TEXT = (REPOSITORY / PAGE).read_text()


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(fresh(tmp_path / "tiny_gpt"))
    (example,) = (block for block in blocks("python") if block.page == PAGE)
    exec(compile(example.text, str(example), "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("DIVERGED  ")
    assert "Cause(name='missing_reduction', axis='tp'" in printed.splitlines()[-1]


def test_pictures_and_names_are_there(diverged) -> None:
    (pictures,) = re.findall(r"^\| `answer.plot\(what\)` \| (.*) \|$", TEXT, re.M)
    for name in re.findall(r'`"(\w+)"`', pictures):
        assert diverged.plot(name)
    for name in re.findall(r"`(\w+)\(", TEXT) + re.findall(r"`(\w+Report|CommandFailed)`", TEXT):
        assert hasattr(report, name)


def test_the_frame_of_the_page(diverged) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: tests/requirements.txt")
    (example,) = re.findall(r"`(answer\.frame\(\)\.query.*?)`", TEXT)
    assert eval(example, {"answer": diverged}).loc[0] > 1e4
