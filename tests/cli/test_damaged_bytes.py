"""Files with a few wrong bytes, as from a bad disk: any answer but a crash or a hang."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from conformance.write_trace import sample_tensors, write_candidate, write_reference
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, UNUSABLE

from .conftest import Run

ROUNDS = 75


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    write_reference(folder / "ref.h5", sample_tensors())
    write_candidate(folder / "run", sample_tensors())
    return folder


def damaged(content: bytes, seed: int) -> bytes:
    """One to four bytes changed; half of the time in the first part, where the metadata is."""
    generator = random.Random(seed)
    damage = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        end = len(damage) // generator.choice((1, 8))
        damage[generator.randrange(end)] ^= generator.choice((0x01, 0x80, 0xFF, 0x40))
    return bytes(damage)


@pytest.mark.parametrize("name", ["ref.h5", "run/rank_00001.h5"])
def test_no_damage_is_a_crash(ttrace: Run, trace: Path, name: str) -> None:
    path = trace / name
    healthy = path.read_bytes()
    answers = set()
    try:
        for seed in range(ROUNDS):
            path.write_bytes(damaged(healthy, seed))
            done = ttrace("compare", trace / "ref.h5", trace / "run", timeout=30)
            context = (seed, done.returncode, done.stderr)
            assert done.returncode in (MATCH, DIVERGED, UNUSABLE, INCONCLUSIVE), context
            assert "defect in ttrace" not in done.stderr, context
            assert done.returncode == MATCH or not done.stdout.startswith("MATCH"), context
            assert done.returncode != UNUSABLE or done.stderr.count("\n") == 1, context
            answers.add(done.returncode)
    finally:
        path.write_bytes(healthy)
    assert len(answers) > 1  # the damage was noticed
