"""No specification crashes `ttrace audit` or `localize`, or takes more memory than is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import hostile_specifications
import pytest

LONG = os.environ.get("TTRACE_LONG") == "1"
NAMES = list(hostile_specifications.SHAPES) if LONG else hostile_specifications.SAMPLE


def test_there_are_many_shapes() -> None:
    assert len(hostile_specifications.SHAPES) >= 50
    assert set(hostile_specifications.SAMPLE) <= hostile_specifications.SHAPES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_within_memory(tmp_path: Path, name: str) -> None:
    specification = hostile_specifications.write(name, tmp_path)
    for command in ("audit", "localize") if LONG else ("audit",):
        done = hostile_specifications.tried(command, specification)
        assert hostile_specifications.fault(done) == ""
