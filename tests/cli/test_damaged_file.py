"""Files on which the HDF5 library itself may crash: one rank is lost, not the run."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from support.ttrace_cli import INCONCLUSIVE, TESTDATA, UNUSABLE, run_ttrace, ttrace_binary


def damage_attributes(path: Path) -> None:
    """Overstates sizes in every attribute's header; HDF5 1.10.8 reads past its buffer."""
    content = bytearray(path.read_bytes())
    found = [match.start() for match in re.finditer(b"ttrace_dtype", bytes(content))]
    assert len(found) > 100
    for start in found:
        content[start - 3] = 0xFF
    path.write_bytes(content)


def test_a_rank_file_that_crashes_hdf5_costs_that_rank_only(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(TESTDATA / "tp2sp", run)
    damage_attributes(run / "rank_00001.h5")
    done = run_ttrace("compare", str(TESTDATA / "ref.h5"), str(run))
    assert done.returncode == INCONCLUSIVE, done.stderr
    assert done.stdout.startswith("INCONCLUSIVE  nothing diverged")
    assert "rank_00001.h5" in done.stderr
    assert "rank_00000.h5" not in done.stderr


def test_a_reference_that_crashes_hdf5_is_one_sentence(tmp_path: Path) -> None:
    reference = tmp_path / "ref.h5"
    shutil.copy(TESTDATA / "ref.h5", reference)
    damage_attributes(reference)
    done = run_ttrace("compare", str(reference), str(TESTDATA / "tp2sp"))
    assert done.returncode in (UNUSABLE, INCONCLUSIVE), done.stderr
    assert not done.stdout.startswith("MATCH")
    assert str(reference) in done.stderr


def test_a_signal_ends_the_command_and_what_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "report.json"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    # Opening the pipe for writing waits for a reader that never comes: the command hangs in its
    # child, as it would on a dead file server.
    arguments = ["compare", str(TESTDATA / "ref.h5"), str(TESTDATA / "tp2sp"), "--json", str(pipe)]
    process = subprocess.Popen([ttrace_binary(), *arguments], stdout=subprocess.PIPE)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == -signal.SIGTERM
    leftover = subprocess.run(["pgrep", "-f", str(pipe)], capture_output=True, text=True)
    assert leftover.stdout == ""
