"""Megatron-core on the CPU: one script, traced on one process and in every layout, must agree."""

from __future__ import annotations

import agreement
import grid
import pytest
from megatron_runs import SELECTED


@pytest.mark.parametrize(("version", "name"), SELECTED)
def test_layouts_agree_with_one_process(version, name, megatron):
    trace = megatron.trace(version, name)
    reference = megatron.reference(version, name)
    agreement.check_agreement(name, trace, reference, megatron.noise(version, name))
    assert grid.manifest(trace)["run"]["framework"] == f"Megatron-core {version}"


def test_the_user_adds_few_lines():
    agreement.added_lines("train_gpt.py")
