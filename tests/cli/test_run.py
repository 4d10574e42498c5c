"""`ttrace run`: from two training commands to the answer, with jobs of every bad kind.

The jobs are scripts without torch that copy a recorded trace to where the collector would write it;
tests/e2e/test_run.py runs real ones.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import CompletedProcess

import h5py
import pytest
from support.reports import read_report
from support.ttrace_cli import (
    DIVERGED,
    INCONCLUSIVE,
    MATCH,
    TESTDATA,
    UNUSABLE,
    ttrace_binary,
)

from .conftest import Run


def run_ids() -> dict[str, str]:
    """Trace -> the run it is of. Read here: importing h5py takes most of a job's time."""
    found = {}
    for path in TESTDATA.glob("*.h5"):
        with h5py.File(path, "r") as file:
            found[path.name] = json.loads(file["manifest"][()])["run"]["id"]
    for path in TESTDATA.glob("*/manifest.json"):
        found[path.parent.name] = json.loads(path.read_text())["run"]["id"]
    return found


JOB = f"""
import json, os, shutil, signal, subprocess, sys, time
from pathlib import Path

IDS = {run_ids()!r}
data, out = Path({str(TESTDATA)!r}), Path(os.environ["TTRACE_OUT"])
seed, done = os.environ.get("TTRACE_NOISE"), os.environ.get("TTRACE_DONE")
what = sys.argv[1:]

def record(name, tell=None):
    # Says that it is done with the id of `tell`: None is its own, "" says nothing.
    source = data / name
    shutil.copytree(source, out) if source.is_dir() else shutil.copy(source, out)
    if "TTRACE_SPECIFICATION" in os.environ:
        shutil.copy(data / "specification.json", os.environ["TTRACE_SPECIFICATION"])
    if done and tell != "":
        said = {{"schema": "ttrace.done/1", "run": IDS[tell or name], "steps": [0]}}
        Path(done + ".1").write_text(json.dumps(said))
        os.replace(done + ".1", done)

print("step 0 begins", os.environ.get("TTRACE_STEPS"))
"""
HEALTHY = JOB + 'record(f"noise{seed}.h5" if seed else (what or ["ref.h5"])[0])\n'
# The candidate from weights of another seed.
OTHER_WEIGHTS = (
    JOB
    + """
record("tp2sp", tell="")
import h5py, numpy
for path in out.glob("*.h5"):
    with h5py.File(path, "r+") as file:
        for number, parameter in enumerate(file["step_000000/param"].values()):
            parameter[...] = numpy.random.default_rng(number).normal(size=parameter.shape)
"""
)
FOREVER = HEALTHY + "time.sleep(1000)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(HEALTHY)
    return tmp_path


def words(*parts: str) -> list[str]:
    return [sys.executable, *parts]


def candidate(*parts: str) -> str:
    return shlex.join(words(*parts))


def run(
    ttrace: Run,
    folder: Path,
    *flags: str,
    of: str = "tp2sp",
    reference: list[str] | None = None,
    screen: bool = True,
) -> CompletedProcess[str]:
    return ttrace(
        *("run", "--candidate", candidate("job.py", of), *flags, "--"),
        *(reference or words("job.py")),
        cwd=folder,
        screen=screen,
    )


def refused(done: CompletedProcess[str]) -> str:
    """The one sentence of a refusal: the last line of stderr."""
    assert done.returncode == UNUSABLE, done.stdout + done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


def started_by(folder: Path) -> list[str]:
    """The processes that still run in the folder."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if os.readlink(process / "cwd") == str(folder):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_healthy_pair(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder)
    assert done.returncode == MATCH, done.stderr
    assert done.stdout.startswith("MATCH  202 tensors agree")
    assert "3 noise runs" in done.stdout
    names = "ref.h5, run, noise1.h5, noise2.h5, noise3.h5, specification.json, compare.json, "
    assert f"kept in ttrace-run/  {names}page.html\n" in done.stdout
    told = [line for line in done.stderr.splitlines() if " of 5: " in line]
    assert [re.sub(r"^ttrace: (\d of 5: [^,]*), .*", r"\1", line) for line in told] == [
        "1 of 5: the reference",
        "2 of 5: the candidate",
        *(f"{3 + i} of 5: noise run {i + 1}" for i in range(3)),
    ]
    kept = folder / "ttrace-run"
    assert read_report(kept / "compare.json")["verdict"] == "match"
    assert (kept / "page.html").read_text().startswith("<!")
    assert not (kept / "localize.json").exists()
    assert (kept / "ref.log").read_text() == "step 0 begins +2\n"


def test_noise_runs_are_spent_where_they_can_change_the_answer(ttrace: Run, folder: Path) -> None:
    far = run(ttrace, folder, of="tp2sp_p12")
    assert far.returncode == DIVERGED and "; 1 noise run\n" in far.stdout
    assert (
        "\nttrace: 2 more noise runs left out: the first answer is beyond any noise\n" in far.stderr
    )
    asked = run(ttrace, folder, "--noise-runs", "2", of="tp2sp_p12")
    assert asked.returncode == DIVERGED and "; 2 noise runs\n" in asked.stdout
    # Weights of another seed.
    (folder / "other.py").write_text(OTHER_WEIGHTS)
    done = ttrace("run", "--candidate", candidate("other.py"), "--", *words("job.py"), cwd=folder)
    assert done.returncode == DIVERGED, done.stderr
    assert done.stdout.startswith("DIVERGED  the runs do not start from the same weights")
    assert "ttrace: 3 noise runs left out: the runs do not start from the same" in done.stderr
    assert not list((folder / "ttrace-run").glob("noise*"))


def test_what_the_collector_says_of_a_job_is_repeated_once(ttrace: Run, folder: Path) -> None:
    said = 'print("ttrace: warning: dropout is active", "ttrace: step 0 -> x", sep="\\n")\n'
    (folder / "job.py").write_text(said + HEALTHY)
    done = run(ttrace, folder)
    assert done.returncode == MATCH, done.stderr
    assert done.stderr.count("dropout is active") == 1
    assert "step 0 -> x" not in done.stderr


def test_a_bug_is_compared_and_explained(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, "--steps", "0-2", "--out", "kept/", of="tp2sp_p12")
    assert done.returncode == DIVERGED, done.stderr
    first, explained = done.stdout.split("\n\n")[:2]
    assert first.startswith("DIVERGED  the gradients of 10 of 28 parameters")
    assert "final_norm" in explained
    kept = folder / "kept"
    compared = read_report(kept / "compare.json")
    assert compared["verdict"] == "diverged" and len(compared["findings"]) == 10
    assert read_report(kept / "localize.json")["findings"]
    assert (kept / "run.log").read_text() == "step 0 begins 0-2\n"
    # The last line compares again.
    again = done.stdout.splitlines()[-1].removeprefix("once more  ttrace ")
    shell = f"{shlex.quote(str(ttrace_binary()))} {again}"
    environment = {**os.environ, "COLUMNS": "100000"}
    once_more = subprocess.run(
        shell, shell=True, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert once_more.returncode == DIVERGED
    assert once_more.stdout.splitlines()[0] == first.splitlines()[0]


def test_quiet_is_one_line(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, "--quiet", "--noise-runs", "1", of="tp2sp_p12")
    assert done.returncode == DIVERGED and done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert (folder / "ttrace-run" / "localize.json").exists()
    assert not (folder / "ttrace-run" / "noise2.h5").exists()


def test_the_report_may_go_to_standard_output(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, "--json", "-", of="tp2sp_p12")
    assert done.returncode == DIVERGED and done.stdout.startswith("{")
    assert (folder / "ttrace-run" / "localize.json").exists()


def test_a_job_is_ended_when_its_trace_is_complete(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text(FOREVER)
    begin = time.monotonic()
    done = run(ttrace, folder, "--noise-runs", "1")
    assert done.returncode == MATCH, done.stderr
    assert time.monotonic() - begin < 30
    assert started_by(folder) == []


def test_to_end_lets_a_job_go_on(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text(HEALTHY + 'time.sleep(0.5); out.with_suffix(".end").touch()\n')
    done = run(ttrace, folder, "--to-end", "--noise-runs", "0")
    assert done.returncode == MATCH, done.stderr
    assert (folder / "ttrace-run" / "ref.end").exists()


def test_workers_in_sessions_of_their_own_are_ended(ttrace: Run, folder: Path) -> None:
    worker = f"[sys.executable, '-c', 'import time; time.sleep(1000)', {str(folder)!r}]"
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    start = f"subprocess.Popen({worker}, start_new_session=True)\n"
    (folder / "job.py").write_text(HEALTHY + start + stubborn + "time.sleep(1000)\n")
    done = run(ttrace, folder, "--noise-runs", "0")
    assert done.returncode == MATCH, done.stderr
    assert started_by(folder) == []


def test_a_job_that_hangs(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text(JOB + 'print("waits for rank 1", flush=True); time.sleep(1000)')
    done = run(ttrace, folder, "--limit", "1s")
    assert "was ended after 1s, before its trace was complete; does it hang?" in refused(done)
    assert "  | waits for rank 1\n" in done.stderr
    assert started_by(folder) == []


def test_a_job_that_fails_shows_the_end_of_its_output(ttrace: Run, folder: Path) -> None:
    fails = "for i in range(100): print(f'\\x1b[31mline {i}')\nraise SystemExit(7)\n"
    (folder / "job.py").write_text(JOB + fails)
    done = run(ttrace, folder)
    said = refused(done)
    assert said.startswith("ttrace: the reference (")
    assert said.endswith("ended with exit code 7 before its trace was complete")
    tail = [line for line in done.stderr.splitlines() if line.startswith("  | ")]
    assert len(tail) == 20 and tail[-1] == "  | \\x1b[31mline 99"
    assert not (folder / "ttrace-run" / "compare.json").exists()


def test_a_job_that_is_killed(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text(JOB + "os.kill(os.getpid(), signal.SIGKILL)\n")
    assert "was killed by signal 9; was there enough memory?" in refused(run(ttrace, folder))


def test_a_candidate_that_fails_costs_no_noise_runs(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, of="no_such_trace")
    assert refused(done).startswith("ttrace: the candidate (")
    assert "FileNotFoundError" in done.stderr
    assert not (folder / "ttrace-run" / "noise1.log").exists()


def test_a_job_without_a_trace(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text('print("trained")\n')
    done = run(ttrace, folder)
    assert "ended and wrote no trace; its script needs the lines of the collector" in refused(done)
    assert "  | trained\n" in done.stderr


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ('{"schema": "ttrace.done/1", "failed": "rank 0 stopped recording: no space"}', "no space"),
        ('{"schema": "ttrace.done/1", "run": "abc", "steps": []}', "no step was recorded"),
        ("", "the trace could not be written"),
        ("{", "ref.done"),
    ],
)
def test_what_the_collector_says_of_a_failure(
    ttrace: Run, folder: Path, said: str, sentence: str
) -> None:
    (folder / "job.py").write_text(
        # At once, as the collector does: an empty report says that it could not be written.
        JOB + f"Path(done + '.new').write_text({said!r})\n"
        "Path(done + '.new').rename(done)\ntime.sleep(1000)\n",
    )
    assert sentence in refused(run(ttrace, folder))
    assert started_by(folder) == []


def test_a_trace_of_another_run(ttrace: Run, folder: Path) -> None:
    # The other trace is there before the job says that it is done: `ttrace run` ends it at once.
    (folder / "job.py").write_text(JOB + 'record("noise1.h5", tell="ref.h5"); time.sleep(1000)\n')
    assert "ref.h5 is the trace of another run" in refused(run(ttrace, folder))


def test_a_damaged_trace(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text(JOB + 'out.write_bytes(b"no HDF5")\n')
    assert "its trace cannot be read: " in refused(run(ttrace, folder))


def test_noise_runs_that_are_none(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text(JOB + 'record((what or ["ref.h5"])[0])\n')
    assert "noise run 1" in refused(run(ttrace, folder))
    assert "was not perturbed, so it is no noise run" in refused(run(ttrace, folder))


def test_a_reference_that_is_perturbed(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, reference=words("job.py", "noise1.h5"))
    assert refused(done).endswith("is a noise run itself; leave perturb= out of the script")


def test_a_program_that_does_not_exist(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, reference=["no-such-program"])
    assert refused(done) == (
        "ttrace: the reference: no-such-program cannot be started: there is no such program; is "
        "its environment activated?"
    )
    done = ttrace(*("run", "--candidate", "no-such-program 2", "--", *words("job.py")), cwd=folder)
    assert refused(done).endswith("there is no such program; is its environment activated?")


def test_a_program_that_may_not_be_started(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, reference=["./job.py"])
    assert "./job.py cannot be started: the system says Permission denied" in refused(done)


def test_its_own_folder_is_replaced_and_no_other(ttrace: Run, folder: Path) -> None:
    assert run(ttrace, folder, of="tp2sp_p12").returncode == DIVERGED
    kept = folder / "ttrace-run"
    (kept / "notes.txt").write_text("mine")
    (kept / "noise7.h5").write_text("of an earlier run")
    (kept / "noise.h5").write_text("mine")
    assert run(ttrace, folder, "--noise-runs", "1").returncode == MATCH
    assert not (kept / "localize.json").exists() and not (kept / "noise2.h5").exists()
    assert not (kept / "noise7.h5").exists()
    assert (kept / "notes.txt").read_text() == (kept / "noise.h5").read_text() == "mine"

    other = folder / "other"
    other.mkdir()
    (other / "ref.h5").write_text("precious")
    done = run(ttrace, folder, "--out", "other")
    assert refused(done) == (
        "ttrace: other: holds files and was not made by `ttrace run`, so nothing in it is "
        "replaced; name another folder with --out"
    )
    assert [path.name for path in other.iterdir()] == ["ref.h5"]
    (folder / "file").touch()
    assert "a file of this name is there" in refused(run(ttrace, folder, "--out", "file"))
    assert "file: cannot be made" in refused(run(ttrace, folder, "--out", "nowhere/file"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(ttrace: Run, folder: Path) -> None:
    (folder / "locked").mkdir(mode=0o500)
    assert "locked" in refused(run(ttrace, folder, "--out", "locked"))


def test_a_folder_on_a_read_only_file_system(ttrace: Run, folder: Path) -> None:
    done = run(ttrace, folder, "--out", "/proc/ttrace-run")
    assert refused(done).startswith("ttrace: /proc/ttrace-run: cannot be made a folder: ")


def test_two_at_once_in_one_folder(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text(JOB + 'out.with_suffix(".here").touch(); time.sleep(1000)\n')
    first = start(folder)
    try:
        wait_for(folder / "ttrace-run" / "ref.here")
        assert "another `ttrace run` works in it" in refused(run(ttrace, folder))
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)


def start(
    folder: Path, candidate: tuple[str, ...] = ("--candidate", "true")
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ttrace_binary(), "run", *candidate, "--", *words("job.py")],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.05)
    raise TimeoutError(path)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_job(folder: Path, by: signal.Signals) -> None:
    (folder / "job.py").write_text(JOB + 'out.with_suffix(".here").touch(); time.sleep(1000)\n')
    process = start(folder)
    wait_for(folder / "ttrace-run" / "ref.here")
    os.killpg(process.pid, by)  # as a terminal does
    out, _ = process.communicate(timeout=30)
    for _ in range(200):
        if not started_by(folder):
            break
        time.sleep(0.05)
    assert started_by(folder) == []
    if by in (signal.SIGINT, signal.SIGTERM):
        assert process.returncode == INCONCLUSIVE
        assert out.startswith("INCONCLUSIVE  interrupted while the reference ran, so nothing was")


def test_limits_that_are_none(ttrace: Run, folder: Path) -> None:
    for limit in ("soon", "-1", "0", "1d", "nan", "inf"):
        assert "--limit" in refused(run(ttrace, folder, "--limit", limit))
    assert not (folder / "ttrace-run").exists()


def test_a_command_line_without_jobs(ttrace: Run, folder: Path) -> None:
    done = ttrace("run", "--candidate", "true", cwd=folder)
    assert done.returncode == UNUSABLE
    assert "COMMAND is required" in done.stderr
    done = ttrace("run", "--candidate", "", "--", *words("job.py"), cwd=folder)
    assert "--candidate: is empty" in refused(done)


def alone(ttrace: Run, folder: Path, *flags: str, of: str = "ref.h5") -> CompletedProcess[str]:
    return ttrace("run", *flags, "--", *words("job.py", of), cwd=folder, screen=True)


def test_one_command_is_recorded_and_audited(ttrace: Run, folder: Path) -> None:
    assert run(ttrace, folder, "--noise-runs", "1").returncode == MATCH
    done = alone(ttrace, folder)
    assert done.returncode == MATCH, done.stderr
    assert done.stdout.startswith("HOLDS  ")
    assert re.search(r"1 of 1: the run, .* job.py ref.h5$", done.stderr, re.M)
    assert "kept in ttrace-run/  run, specification.json, audit.json, page.html\n" in done.stdout
    kept = folder / "ttrace-run"
    assert read_report(kept / "audit.json")["verdict"] == "holds"
    assert (kept / "page.html").read_text().startswith("<!")
    # What the comparison before it made is gone.
    assert sorted(path.name for path in kept.iterdir()) == sorted(
        ["audit.json", "commands.txt", "page.html", "run", "run.done", "run.log"]
        + ["specification.json"]
    )
    assert done.stdout.splitlines()[-1] == (
        "once more  ttrace audit ttrace-run/run --specification ttrace-run/specification.json"
    )


def test_one_command_with_a_bug(ttrace: Run, folder: Path) -> None:
    specification = ("--specification", str(TESTDATA / "specification.json"))
    done = alone(ttrace, folder, *specification, of="tp2sp_p12")
    assert done.returncode == DIVERGED and done.stdout.startswith("BROKEN  ")
    assert "kept in ttrace-run/  run, audit.json, page.html\n" in done.stdout
    again = done.stdout.splitlines()[-1].removeprefix("once more  ttrace ").split()
    assert ttrace(*again, cwd=folder).stdout.splitlines()[0] == done.stdout.splitlines()[0]


def test_one_command_without_a_specification(ttrace: Run, folder: Path) -> None:
    (folder / "job.py").write_text("import os\nos.environ.pop('TTRACE_SPECIFICATION')" + HEALTHY)
    done = alone(ttrace, folder)
    assert done.returncode == INCONCLUSIVE, done.stdout
    assert "without a specification little can be judged" in done.stderr
    assert done.stdout.splitlines()[-1] == "once more  ttrace audit ttrace-run/run"


def test_a_specification_of_the_folder_is_not_removed(ttrace: Run, folder: Path) -> None:
    assert alone(ttrace, folder).returncode == MATCH
    own = folder / "ttrace-run" / "specification.json"
    done = alone(ttrace, folder, "--specification", "ttrace-run/specification.json")
    assert "whose files are replaced; name another folder with --out" in refused(done)
    assert own.exists()
    done = alone(ttrace, folder, "--specification", "nowhere.json", "--out", "other")
    assert "nowhere.json" in refused(done) and not (folder / "other").exists()


def test_noise_runs_need_a_candidate(ttrace: Run, folder: Path) -> None:
    assert "--noise-runs requires --candidate" in refused(
        alone(ttrace, folder, "--noise-runs", "1")
    )


def test_an_interrupted_run_of_one_command(folder: Path) -> None:
    (folder / "job.py").write_text(JOB + 'out.with_suffix(".here").touch(); time.sleep(1000)\n')
    process = start(folder, candidate=())
    wait_for(folder / "ttrace-run" / "run.here")
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == INCONCLUSIVE
    assert out.startswith("INCONCLUSIVE  interrupted while the run ran, so nothing was audited")
