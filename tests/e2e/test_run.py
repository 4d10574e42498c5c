"""`ttrace run` with real jobs: one process, and two under torchrun that average their gradients.

One test starts torchrun as users do. All other jobs are forked from a process that has imported
torch, and fork their ranks, in a third of the time.
"""

from __future__ import annotations

import shlex
import sys
import time

import pytest
from support.averaging_job import FORKED_TORCHRUN, SCRIPT
from support.python_runs import python_command
from support.reports import read_report
from support.ttrace_cli import DIVERGED, MATCH, UNUSABLE, run_ttrace

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")
# An hour of training, of which the first step is recorded.
STEPS = "72000"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def forked(*arguments):
    return [*python_command(), *(str(argument) for argument in arguments)]


def run(script, *flags, reference=(STEPS, "4"), candidate=(STEPS, "4")):
    ranks = forked(*FORKED_TORCHRUN, "--nproc-per-node", "2", script, *candidate)
    return run_jobs(script, ranks, forked(script, *reference), *flags)


def run_jobs(script, candidate, reference, *flags):
    return run_ttrace(
        *("run", "--candidate", shlex.join(candidate), *flags, "--", *reference),
        cwd=script.parent,
        timeout=120,
        screen=True,
    )


def test_a_healthy_job_matches_and_is_ended_after_its_step(script):
    begin = time.monotonic()
    ranks = [*TORCHRUN, "--nproc-per-node", "2", str(script), STEPS, "4"]
    done = run_jobs(script, ranks, forked(script, STEPS, "4"), "--noise-runs", "1")
    assert done.returncode == MATCH, done.stderr
    assert time.monotonic() - begin < 100
    assert done.stdout.startswith("MATCH")
    report = read_report(script.parent / "ttrace-run" / "compare.json")
    assert report["candidate"]["ranks"] == 2 and report["reference"]["ranks"] == 1
    assert (script.parent / "ttrace-run" / "ref.log").read_text().count("step") < 200


def test_gradients_that_are_never_averaged_are_explained(script):
    done = run(script, "--noise-runs", "0", "--steps", "0,2", candidate=(STEPS, "4", "bug"))
    assert done.returncode == DIVERGED, done.stderr
    assert "never averaged over dp (2 ranks)" in done.stdout.splitlines()[0]
    kept = script.parent / "ttrace-run"
    assert read_report(kept / "compare.json")["reference"]["steps"] == [0, 2]
    assert read_report(kept / "localize.json")["findings"]


def test_a_reference_without_all_micro_batches_is_refused_before_the_noise_runs(script):
    done = run(script, reference=(STEPS, "2"))
    assert done.returncode == UNUSABLE
    said = done.stderr.splitlines()[-1]
    assert "the candidate has 4 micro-batches in step 0, the reference 2" in said
    assert "a reference on one process takes those of all data-parallel ranks" in said
    assert not (script.parent / "ttrace-run" / "noise1.h5").exists()


def test_a_step_that_no_job_reaches(script):
    done = run(script, "--steps", "9", reference=("2", "4"))
    assert done.returncode == UNUSABLE
    assert done.stderr.splitlines()[-1].endswith("no step was recorded")
    assert "the job went up to step 1" in done.stderr


def test_a_job_that_cannot_be_traced_is_ended_at_once(script):
    text = script.read_text()
    script.write_text(text.replace("import sys", "import sys\nos.environ['TTRACE_KINDS'] = 'x'"))
    begin = time.monotonic()
    done = run(script)
    assert done.returncode == UNUSABLE and time.monotonic() - begin < 100
    assert "'x'" in done.stderr.splitlines()[-1]


def test_one_command_alone_is_audited_and_its_specification_judges_two_ranks(script):
    alone = ("run", "--out", "one", "--", *forked(script, STEPS, "4"))
    done = run_ttrace(*alone, cwd=script.parent, timeout=120, screen=True)
    assert done.returncode == MATCH, done.stderr
    assert done.stdout.startswith("HOLDS")
    job = forked(*FORKED_TORCHRUN, "--nproc-per-node", "2", script, STEPS, "4", "bug")
    specification = ("--specification", "one/specification.json")
    done = run_ttrace("run", *specification, "--", *job, cwd=script.parent, timeout=120)
    assert done.returncode == DIVERGED, done.stderr
    assert "never averaged over dp (2 ranks)" in done.stdout.splitlines()[0]
    assert read_report(script.parent / "ttrace-run" / "audit.json")["findings"]
