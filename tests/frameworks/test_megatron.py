"""Megatron-core on the CPU: one script, traced on one process and in every layout, must agree."""

from __future__ import annotations

from pathlib import Path

import grid
import pytest
from megatron_runs import SELECTED
from support.ttrace_cli import MATCH, run_ttrace

HERE = Path(__file__).parent


@pytest.mark.parametrize(("version", "name"), SELECTED)
def test_layouts_agree_with_one_process(version, name, megatron):
    trace = megatron.trace(version, name)
    linted = run_ttrace("lint", trace)
    assert linted.returncode == MATCH and linted.stdout.startswith("CLEAN"), linted.stdout
    compared = megatron.compare(version, name)
    grid.add_row(name, trace, compared, megatron.seconds(version, name))
    assert compared.returncode == MATCH, compared.stdout + compared.stderr
    assert compared.stdout.startswith("MATCH"), compared.stdout
    assert grid.keys(trace) == grid.keys(megatron.reference(version, name))
    assert grid.manifest(trace)["run"]["framework"] == f"Megatron-core {version}"


def test_the_user_adds_few_lines():
    script = (HERE / "train_gpt.py").read_text(encoding="utf-8")
    code = script.split('"""', 2)[2].splitlines()
    added = [line for line in code if line.endswith("# tt")]
    assert 0 < len(added) < 10
    assert added == [line for line in code if "trace" in line or "tt." in line]
