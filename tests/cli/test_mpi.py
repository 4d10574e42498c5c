"""mpirun -n N ttrace compare: the ranks share the work, rank 0 reports.

These tests need mpirun and a build with the MPI module (scripts/setup.sh installs Open MPI
before it builds); without these they fail and say so. The last two are about builds without.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.same_report import json_but_environment, text_but_environment
from support.text_report import answer
from support.ttrace_cli import (
    DIVERGED,
    INCONCLUSIVE,
    MATCH,
    TESTDATA,
    UNUSABLE,
    in_full,
    ttrace_binary,
)

from .conftest import Run
from .slow_traces import SLOW, write_zeros
from .small_traces import check_refused, write_pair

SECONDS = 120
REF = TESTDATA / "ref.h5"
NOISE = ["--noise", TESTDATA / "noise1.h5"]


def launch(ranks: int, *arguments: str | Path) -> list[str | Path]:
    needed = [shutil.which("mpirun"), ttrace_binary().with_name("ttrace_mpi.so").exists()]
    if not all(needed):
        pytest.fail("no mpirun, or no ttrace_mpi.so: apt-get install libopenmpi-dev openmpi-bin, "
                    "then configure and build again")  # fmt: skip
    flags = ["--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    return ["mpirun", *flags, ttrace_binary(), *arguments]


def mpirun(ranks: int, *arguments: str | Path) -> CompletedProcess[str]:
    command = launch(ranks, *in_full(arguments))
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
        check=False, env={**os.environ, "COLUMNS": "100000"},
    )  # fmt: skip


@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize("run", ["tp2sp", "tp2sp_p12"])
def test_the_report_is_that_of_one_process(
    ttrace: Run, tmp_path: Path, run: str, ranks: int
) -> None:
    command = ["compare", REF, TESTDATA / run, *NOISE, "--json"]
    one = ttrace(*command, tmp_path / "one.json")
    assert one.returncode == (MATCH if run == "tp2sp" else DIVERGED)
    many = mpirun(ranks, *command, tmp_path / "many.json")
    assert many.returncode == one.returncode, many.stderr
    assert text_but_environment(many.stdout) == text_but_environment(one.stdout)
    told = json_but_environment(tmp_path / "many.json")
    assert told == json_but_environment(tmp_path / "one.json")


def test_more_ranks_than_tensors(tmp_path: Path) -> None:
    done = mpirun(5, "compare", *write_pair(tmp_path))
    assert done.returncode == MATCH, done.stderr
    assert done.stdout.startswith("MATCH  3 tensors")


def test_what_cannot_be_read(ttrace: Run, tmp_path: Path) -> None:
    ref, run = write_pair(tmp_path)
    (run / "rank_00001.h5").unlink()
    one, many = ttrace("compare", ref, run), mpirun(2, "compare", ref, run)
    assert many.returncode == one.returncode == INCONCLUSIVE
    assert text_but_environment(many.stdout) == text_but_environment(one.stdout)
    done = mpirun(2, "compare", tmp_path / "none.h5", run)
    assert done.returncode == UNUSABLE
    assert f"ttrace: {tmp_path}/none.h5: No such file or directory" in done.stderr
    done = mpirun(2, "compare", ref, run, "--part", "1/2")
    assert done.returncode == UNUSABLE
    assert "ttrace: --part divides the work that mpirun has divided already" in done.stderr


def children(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            words = status.read_text().split()
        except OSError:  # it has ended meanwhile
            continue
        if words[words.index("PPid:") + 1] == str(parent):
            found.append(int(status.parent.name))
    return sorted(found)


def begun(folder: Path) -> tuple[subprocess.Popen[str], list[str | Path]]:
    """A job of two ranks, each of which has finished a tensor, and how it was started."""
    pair = [write_zeros(folder / name, *SLOW) for name in ("ref.h5", "run.h5")]
    states = [folder / f"state.rank{rank}" for rank in range(2)]
    command = launch(2, "compare", *pair, "--threads", "1", "--resume", folder / "state")
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while job.poll() is None and not all(
        state.exists() and state.read_bytes().count(b"\n") > 1 for state in states
    ):
        time.sleep(0.01)
    return job, command


def rank_of(process: int) -> int:
    environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    (rank,) = [one for one in environment if one.startswith(b"OMPI_COMM_WORLD_RANK=")]
    return int(rank.split(b"=")[1])


def test_a_rank_that_is_interrupted(tmp_path: Path) -> None:
    job, _ = begun(tmp_path)
    # The one that has more to do: on a busy machine the other may have finished.
    finished = [(tmp_path / f"state.rank{rank}").read_bytes().count(b"\n") for rank in range(2)]
    behind = finished.index(min(finished))
    (process,) = [child for child in children(job.pid) if rank_of(child) == behind]
    os.kill(process, signal.SIGINT)
    out, err = job.communicate(timeout=SECONDS)
    assert job.returncode == INCONCLUSIVE, err
    assert out.startswith("INCONCLUSIVE  interrupted after ")
    assert "of 24 tensors; the same command goes on from there" in answer(out)


@pytest.mark.parametrize("which", ["worker", "supervisor"])
def test_a_rank_that_is_killed(tmp_path: Path, which: str) -> None:
    job, command = begun(tmp_path)
    supervisor = children(job.pid)[1]
    os.kill(children(supervisor)[0] if which == "worker" else supervisor, signal.SIGKILL)
    out, err = job.communicate(timeout=SECONDS)  # it ends
    assert out == ""
    if which == "worker":
        assert job.returncode == UNUSABLE, err
        assert "ttrace: rank 1 of 2 was killed while it worked, so nothing was compared" in err
    else:  # nothing of ttrace is left to speak: mpirun does
        assert job.returncode == 128 + signal.SIGKILL, err
        assert "exited on signal 9" in err
    # Both go on from where they were.
    done = mpirun(2, *command[command.index("compare") :])
    assert done.returncode == MATCH, done.stderr
    assert done.stdout.startswith("MATCH  24 tensors")


def as_rank(size: int) -> dict[str, str]:
    return {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": str(size)}


def test_a_build_without_the_module(ttrace: Run, tmp_path: Path) -> None:
    alone = shutil.copy(ttrace_binary(), tmp_path / "ttrace")
    ref, run = write_pair(tmp_path)

    def compare(*flags: str, size: int = 2) -> CompletedProcess[str]:
        return subprocess.run(
            [alone, "compare", ref, run, *flags], env={**os.environ, **as_rank(size)},
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip

    check_refused(compare(), "started by mpirun, but this build has no MPI module (ttrace_mpi.so)")
    assert compare("--mpi", "off").returncode == MATCH
    assert compare(size=1).returncode == MATCH
    version = subprocess.run([alone, "--version"], capture_output=True, text=True, check=True)
    assert "mpi: no module" in version.stdout
    (tmp_path / "ttrace_mpi.so").write_text("this is no library")
    check_refused(compare(), f"{tmp_path}/ttrace_mpi.so: cannot be loaded")


def test_a_process_that_is_told_to_be_one(ttrace: Run, tmp_path: Path) -> None:
    """As a training script's rank that calls ttrace: the launcher's variables are inherited."""
    ref, run = write_pair(tmp_path)
    done = ttrace("compare", ref, run, "--mpi", "off", environment=as_rank(4))
    assert done.returncode == MATCH, done.stderr
