"""`ttrace watch`: steps are judged while they are written, and nothing half-written counts."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import h5py
import pytest
from conformance.numpy_merge import dataset_path
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA, UNUSABLE, ttrace_binary

from .conftest import Run
from .growing_trace import GrowingRun, entries, write_reference
from .small_traces import check_refused

PATIENCE = 30.0


class Watcher:
    """`ttrace watch` as it runs; lines come as it prints them."""

    def __init__(self, folder: Path, *flags: str | Path) -> None:
        self._process = subprocess.Popen(
            [ttrace_binary(), "watch", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._errors: list[str] = []
        assert self._process.stdout is not None and self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._lines.put)),
            threading.Thread(target=self._read, args=(self._process.stderr, self._errors.append)),
        ]
        for thread in self._threads:
            thread.start()
        time.sleep(0.3)

    @staticmethod
    def _read(stream: IO[str], take) -> None:
        for line in stream:
            take(line.rstrip("\n"))

    def line(self) -> str:
        return self._lines.get(timeout=PATIENCE)

    def is_silent(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._lines.empty()

    def stop(self, number: int = signal.SIGINT) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """The exit code, and stderr."""
        code = self._process.wait(timeout=PATIENCE)
        for thread in self._threads:
            thread.join()
        return code, "\n".join(self._errors)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[object]:
    started: list[Watcher] = []

    def start(*flags: str | Path) -> Watcher:
        started.append(Watcher(tmp_path, "run", *flags))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return write_reference(tmp_path / "ref.h5", [0, 1, 2])


def in_time(watcher: Watcher, beginning: str) -> None:
    """A line within two seconds, which also hold the comparison and a slow machine's start."""
    begin = time.monotonic()
    line = watcher.line()
    assert line.startswith(beginning), line
    assert time.monotonic() - begin < 2


def test_healthy_steps_are_told_as_they_are_written(watch, reference, tmp_path):
    watcher = watch("--reference", reference)
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    in_time(watcher, "step 0  MATCH  5 of 5 ")
    run.write(1)
    in_time(watcher, "step 1  MATCH  5 of 5 ")
    assert watcher.is_silent(1)
    run.write(2)
    line = watcher.line()
    assert line.startswith("step 2  MATCH  ") and line.endswith("(nothing changed since step 1)")
    run.close()
    assert watcher.line() == "MATCH  3 steps agree; the job has ended"
    assert watcher.end() == (MATCH, "")


class Written:
    """Files that grow all the time behind what was committed, as those of a job that writes its
    next step."""

    def __init__(self, *files: Path) -> None:
        self._files, self._ends = files, threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._ends.is_set():
            for file in self._files:
                with open(file, "ab") as opened:
                    opened.write(b"\0")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def test_a_step_is_judged_while_the_next_one_is_written(watch, reference, tmp_path):
    run = GrowingRun(tmp_path / "run", wrong=(1,))
    for step, verdict in enumerate(["MATCH", "DIVERGED", "MATCH"]):
        run.write(step)
        with Written(run.file(0), run.file(1)):
            if step == 0:
                watcher = watch("--reference", reference)
            assert watcher.line().startswith(f"step {step}  {verdict}  ")
    run.close()
    assert watcher.line().startswith("DIVERGED  first at step 1, in 1 of 3 steps")
    assert watcher.end() == (DIVERGED, "")


@pytest.mark.parametrize("healed", [True, False])
@pytest.mark.parametrize("closed", [True, False])
def test_a_step_that_cannot_be_read_is_judged_again_at_the_end(
    watch, reference, tmp_path, healed, closed
):
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    whole = run.file(1).read_bytes()
    with h5py.File(run.file(1), "a") as file:
        file.move(dataset_path(entries(0)[1]), "hidden")
    with Written(run.file(0), run.file(1)):
        watcher = watch("--reference", reference, "--step", "0", "--timeout", "2s")
        assert watcher.line() == (
            "step 0  NOT JUDGED  not all of its tensors can be read as long as the job writes"
        )
    if healed:
        run.file(1).write_bytes(whole)
    if closed:
        run.close()
    line = watcher.line()
    if healed:
        assert line.startswith("step 0  MATCH  ")
        assert watcher.line().startswith(
            "MATCH  1 step agrees; the job has ended"
            if closed
            else "INCONCLUSIVE  nothing diverged in 1 step, and the job has not ended; nothing new"
        )
        assert watcher.end() == (MATCH if closed else INCONCLUSIVE, "")
    else:
        assert line.startswith("step 0  INCONCLUSIVE  ") and "could not be read" in line
        assert watcher.line().startswith(
            "INCONCLUSIVE  nothing diverged, but 1 step could not be judged, the first of them "
            f"step 0; {'the job has ended' if closed else 'nothing new for 2s'}"
        )
        assert watcher.end()[0] == INCONCLUSIVE


def test_the_first_divergence_runs_the_command_once(watch, ttrace: Run, reference, tmp_path):
    command = (
        'cp "$TTRACE_WATCH_REPORT" got.json; echo "$TTRACE_WATCH_STEP $TTRACE_WATCH_RUN" >> got; '
        'echo "$TTRACE_WATCH_HEADLINE"'
    )
    watcher = watch("--reference", reference, "--on-divergence", command, "--markdown", "page.md")
    run = GrowingRun(tmp_path / "run", wrong=(1, 2))
    for step in (0, 1, 2):
        run.write(step)
        line = watcher.line()
        assert line.startswith(f"step {step}  " + ("DIVERGED  " if step else "MATCH  "))
        if step == 1:
            assert line.endswith("(1 newly diverged since step 0)")
            headline = line.removeprefix("step 1  ").removesuffix(
                "  (1 newly diverged since step 0)"
            )
    assert line.endswith("(1 diverged in both since step 1)")
    run.close()
    assert watcher.line() == "DIVERGED  first at step 1, in 2 of 3 steps; the job has ended"
    code, errors = watcher.end()
    assert code == DIVERGED
    assert errors == f"ttrace: --on-divergence | {headline}"
    assert (tmp_path / "got").read_text() == "1 run\n"
    assert "step 1" in (tmp_path / "page.md").read_text()
    # The report is that of `compare`, made when the job has ended.
    told = json.loads((tmp_path / "got.json").read_text())
    now = ["compare", reference, "run", "--step", "1", "--json", "now.json"]
    assert ttrace(*now, cwd=tmp_path).returncode == DIVERGED
    asked = json.loads((tmp_path / "now.json").read_text())
    for report in (told, asked):
        report["candidate"] = report["candidate"]["path"]
        del report["environment"]
        # What became of other steps, which neither looked at, is another thing by now.
        report["results"] = [one for one in report["results"] if one["key"]["step"] == 1]
    assert told["results"] == asked["results"] and told["findings"] == asked["findings"]
    assert told["verdict"] == asked["verdict"] == "diverged"


def test_a_step_that_one_rank_lacks_is_not_judged(watch, reference, tmp_path):
    watcher = watch("--reference", reference, "--timeout", "3s")
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    assert watcher.line().startswith("step 0  MATCH")
    run.write(1, ranks=(0,))
    assert watcher.line() == (
        "INCONCLUSIVE  nothing diverged in 1 step, and the job has not ended; nothing new for 3s: "
        "rank 1 of 2 has not finished step 1"
    )
    assert watcher.end() == (INCONCLUSIVE, "")


def test_a_rank_that_never_writes_is_named(watch, reference, tmp_path):
    GrowingRun(tmp_path / "run").write(0, ranks=(1,))
    watcher = watch("--reference", reference, "--timeout", "1s")
    assert watcher.line() == (
        "INCONCLUSIVE  no step was judged; nothing new for 1s: rank 0 of 2 has written no step"
    )
    assert watcher.end()[0] == INCONCLUSIVE


def test_a_file_that_is_no_trace_yet_is_told_at_the_end(watch, reference, tmp_path):
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    whole = run.file(1).read_bytes()
    run.file(1).write_bytes(whole[: len(whole) // 2])
    watcher = watch("--reference", reference, "--timeout", "2s")
    line = watcher.line()
    assert line.startswith("INCONCLUSIVE  no step was judged; nothing new for 2s: ")
    assert "rank_00001.h5" in line
    assert watcher.end()[0] == INCONCLUSIVE


def test_a_file_that_becomes_whole_is_judged(watch, reference, tmp_path):
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    whole = run.file(1).read_bytes()
    run.file(1).write_bytes(b"\x00" * 100)
    watcher = watch("--reference", reference)
    assert watcher.is_silent(1)
    run.file(1).write_bytes(whole)
    assert watcher.line().startswith("step 0  MATCH")


def test_a_folder_that_never_appears(watch, reference):
    watcher = watch("--reference", reference, "--timeout", "1s")
    assert watcher.line() == (
        "INCONCLUSIVE  no step was judged; nothing new for 1s: run is not there"
    )
    assert watcher.end() == (INCONCLUSIVE, "")


def test_a_folder_that_vanishes(watch, reference, tmp_path):
    watcher = watch("--reference", reference, "--timeout", "2s")
    run = GrowingRun(tmp_path / "run", wrong=(0,))
    run.write(0)
    assert watcher.line().startswith("step 0  DIVERGED")
    shutil.rmtree(tmp_path / "run")
    line = watcher.line()
    assert line == (
        "DIVERGED  first at step 0, in 1 of 1 step; nothing new for 2s: run is not there any more"
    )
    assert watcher.end() == (DIVERGED, "")


def test_a_step_that_the_reference_lacks(watch, tmp_path):
    write_reference(tmp_path / "ref.h5", [0])
    watcher = watch("--reference", "ref.h5")
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    assert watcher.line().startswith("step 0  MATCH")
    run.write(1)
    assert watcher.line() == "step 1  NOT JUDGED  the reference has step 0 alone"
    run.close()
    assert watcher.line() == "MATCH  1 step agrees; the reference lacks 1 step; the job has ended"
    assert watcher.end()[0] == MATCH


def test_a_run_that_lacks_steps_of_the_reference(watch, reference, tmp_path):
    watcher = watch("--reference", reference)
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    run.close()
    assert watcher.line().startswith("step 0  MATCH")
    assert watcher.line() == (
        "INCONCLUSIVE  nothing diverged in 1 step, but the run lacks 2 steps of the reference; the "
        "job has ended"
    )
    assert watcher.end()[0] == INCONCLUSIVE


def test_a_job_that_begins_anew_is_judged_anew(watch, reference, tmp_path):
    watcher = watch(
        *("--reference", reference, "--on-divergence", "echo $TTRACE_WATCH_STEP", "--step", "0")
    )
    first = GrowingRun(tmp_path / "run", identity="first", wrong=(0, 1))
    first.write(0)
    assert watcher.line().startswith("step 0  DIVERGED")
    # Rank 0 has begun, while the file of rank 1 is that of the run before.
    again = GrowingRun(tmp_path / "run", identity="again")
    again.write(0, ranks=(0,))
    assert watcher.line() == "the job began anew: run has the trace of another run now"
    first.write(1, ranks=(1,))  # and even grows
    assert watcher.is_silent(1.5)
    again.write(0, ranks=(1,))
    assert watcher.line().startswith("step 0  MATCH")
    again.write(1)
    again.close()
    assert watcher.line() == "MATCH  1 step agrees; the job has ended"
    assert watcher.end() == (MATCH, "ttrace: --on-divergence | 0")


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_of_another_run_is_waited_for(watch, reference, tmp_path, replaced):
    """As a node leaves it on which yesterday's job was killed before anyone wrote a manifest."""
    monday = GrowingRun(tmp_path / "run", identity="monday", wrong=(0,))
    monday.write(0, ranks=(1,))
    tuesday = GrowingRun(tmp_path / "run", identity="tuesday")
    tuesday.write(0, ranks=(0,))
    watcher = watch("--reference", reference, "--step", "0", "--timeout", "3s")
    assert watcher.is_silent(1.5)
    if not replaced:
        assert "the file of rank 1 is of another run than that of rank 0" in watcher.line()
        assert watcher.end()[0] == INCONCLUSIVE
        return
    tuesday.write(0, ranks=(1,))
    assert watcher.line() == "the job began anew: run has the trace of another run now"
    assert watcher.line().startswith("step 0  MATCH")
    tuesday.close()
    assert watcher.line() == "MATCH  1 step agrees; the job has ended"
    assert watcher.end()[0] == MATCH


def test_the_trace_of_an_earlier_run_is_passed_over(watch, reference, tmp_path):
    earlier = GrowingRun(tmp_path / "run", identity="earlier")
    for step in (0, 1, 2):
        earlier.write(step)
    earlier.close()
    watcher = watch("--reference", reference, "--timeout", "3s")
    assert watcher.is_silent(1)
    (tmp_path / "run" / "manifest.json").unlink()
    now = GrowingRun(tmp_path / "run", identity="now", wrong=(0,))
    now.write(0, ranks=(0,))
    assert watcher.is_silent(1)
    now.write(0, ranks=(1,))
    assert watcher.line().startswith("step 0  DIVERGED")
    assert watcher.line().startswith("DIVERGED  first at step 0, in 1 of 1 step; nothing new")
    assert watcher.end()[0] == DIVERGED


def test_an_earlier_run_alone_is_no_match(watch, reference, tmp_path):
    earlier = GrowingRun(tmp_path / "run")
    earlier.write(0)
    earlier.close()
    watcher = watch("--reference", reference, "--timeout", "1s")
    assert watcher.line() == (
        "INCONCLUSIVE  no step was judged; nothing new for 1s: run has the trace of an earlier run "
        "alone, which `ttrace compare` judges"
    )
    assert watcher.end()[0] == INCONCLUSIVE


@pytest.mark.parametrize(
    "command, told",
    [
        ("echo no route; exit 3", "echo no route; exit 3: ended with exit code 3"),
        ("sleep 1000", "sleep 1000: was ended after 1 s; does it hang?"),
        ("kill -9 $$", "kill -9 $$: was killed by signal 9"),
        ("/nowhere/notify", "/nowhere/notify: ended with exit code 127"),
    ],
)
def test_a_command_that_fails_changes_no_verdict(watch, reference, tmp_path, command, told):
    watcher = watch(
        *("--reference", reference, "--on-divergence", command, "--command-limit", "1s")
    )
    run = GrowingRun(tmp_path / "run", wrong=(0,))
    for step in (0, 1, 2):
        run.write(step)
        assert watcher.line().startswith(f"step {step}  ")
    run.close()
    assert watcher.line().startswith("DIVERGED  first at step 0, in 1 of 3 steps")
    code, errors = watcher.end()
    assert code == DIVERGED
    assert f"ttrace: warning: --on-divergence {told}" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_as_inconclusive(watch, reference, tmp_path, number):
    watcher = watch("--reference", reference, "--on-divergence", "sleep 1000", "--json", "a.json")
    run = GrowingRun(tmp_path / "run", wrong=(0,))
    run.write(0)
    assert watcher.line().startswith("step 0  DIVERGED")
    begin = time.monotonic()
    watcher.stop(number)
    assert watcher.line() == "INCONCLUSIVE  interrupted after 1 step; step 0 has diverged"
    assert watcher.end()[0] == INCONCLUSIVE
    assert time.monotonic() - begin < 15
    assert json.loads((tmp_path / "a.json").read_text())["verdict"] == "diverged"


def test_a_known_difference_runs_no_command(watch, reference, tmp_path):
    known = {
        "schema": "ttrace.known/1",
        "known": [
            {
                "pattern": "*/output/fc/*",
                "owner": "somebody",
                "reason": "a wider kernel",
                "expires": "2999-01-01",
                "bound": {"used": 1e9},
            }
        ],
    }
    (tmp_path / "known.json").write_text(json.dumps(known))
    watcher = watch(
        *("--reference", reference, "--known", "known.json", "--on-divergence", "touch ran"),
        *("--step", "0"),
    )
    run = GrowingRun(tmp_path / "run", wrong=(0,))
    run.write(0)
    assert watcher.line().startswith("step 0  MATCH but for 1 known")
    run.close()
    assert watcher.line() == "MATCH  1 step agrees; the job has ended"
    assert watcher.end()[0] == MATCH and not (tmp_path / "ran").exists()


def test_a_run_is_audited_without_a_reference(watch, tmp_path):
    watcher = watch("--specification", TESTDATA / "specification.json", "--timeout", "60s")
    shutil.copytree(TESTDATA / "tp2sp_p12", tmp_path / "half")
    os.rename(tmp_path / "half", tmp_path / "run")
    assert watcher.line().startswith("step 0  BROKEN  ")
    assert watcher.line() == "BROKEN  first at step 0, in 1 of 1 step; the job has ended"
    assert watcher.end()[0] == DIVERGED


def test_a_single_file(watch, reference, tmp_path):
    watcher = Watcher(tmp_path, "one.h5", "--reference", reference, "--step", "0")
    try:
        shutil.copy(reference, tmp_path / "copy")
        with h5py.File(tmp_path / "copy", "a") as file:
            text = bytes(file["manifest"][()]).decode().replace('"reference"', '"another"')
            del file["manifest"]
            file["manifest"] = text
        os.rename(tmp_path / "copy", tmp_path / "one.h5")
        assert watcher.line().startswith("step 0  MATCH")
        assert watcher.line() == "MATCH  1 step agrees; the job has ended"
        assert watcher.end()[0] == MATCH
    finally:
        watcher.kill()


def test_quiet_prints_the_verdict_alone(watch, reference, tmp_path):
    watcher = watch("--reference", reference, "--quiet", "--step", "0")
    run = GrowingRun(tmp_path / "run")
    run.write(0)
    run.close()
    assert watcher.line() == "MATCH  1 step agrees; the job has ended"
    assert watcher.end()[0] == MATCH


def test_mistakes_are_refused_before_the_job_begins(ttrace: Run, reference, tmp_path):
    def refused(*flags: str | Path, word: str) -> None:
        check_refused(ttrace("watch", "run", *flags, cwd=tmp_path), word)

    refused("--reference", "nothing.h5", word="nothing.h5")
    refused("--reference", reference, "--noise", "nothing.h5", word="nothing.h5")
    refused("--reference", reference, "--map", "nothing.json", word="nothing.json")
    refused("--specification", "nothing.json", word="nothing.json")
    refused("--reference", reference, "--timeout", "0", word="--timeout 0: expected a time")
    refused("--reference", reference, "--command-limit", "x", word="--command-limit x")
    refused("--reference", reference, "--json", "-", word="cannot go to standard output")
    refused("--reference", reference, "--json", reference, word="ref.h5")
    refused("--noise", reference, word="--noise needs --reference")
    both = ttrace("watch", "run", "--reference", reference, "--specification", "a", cwd=tmp_path)
    assert both.returncode == UNUSABLE and "--specification" in both.stderr
