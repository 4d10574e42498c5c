"""`ttrace watch` beside a job of quick steps, whose file is written all the time:
scripts/soak_watch.py is the long form."""

from __future__ import annotations

import pytest
from support.ttrace_cli import DIVERGED, MATCH
from watched_job import run, watched

STEPS = 20


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "ref.h5"
    run(path, STEPS, 0)
    return path


@pytest.mark.parametrize("wrong", [-1, 12])
def test_every_quick_step_is_judged(tmp_path, reference, wrong):
    code, lines = watched(reference, tmp_path / "run", STEPS, 0.05, wrong)
    judged = {int(line.split()[1]): line.split()[2] for line in lines[:-1]}
    if wrong < 0:
        assert lines[-1] == f"MATCH  {STEPS} steps agree; the job has ended"
        assert code == MATCH and judged == dict.fromkeys(range(STEPS), "MATCH")
    else:
        assert lines[-1].startswith(f"DIVERGED  first at step {wrong}, in ")
        assert code == DIVERGED and len(judged) == STEPS
        assert all(judged[step] == "MATCH" for step in range(wrong))
