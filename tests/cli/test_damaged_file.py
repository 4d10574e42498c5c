"""Files on which the HDF5 library itself would crash: one rank is lost, not the run."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from support.ttrace_cli import INCONCLUSIVE, TESTDATA, UNUSABLE, run_ttrace, ttrace_binary

from .slow_traces import SLOW, write_zeros


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
    pair = [str(write_zeros(tmp_path / name, *SLOW)) for name in ("ref.h5", "run.h5")]
    process = subprocess.Popen(
        [ttrace_binary(), "compare", *pair, "--threads", "1"], stdout=subprocess.PIPE
    )
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=20) == -signal.SIGHUP
    leftover = subprocess.run(["pgrep", "-f", pair[0]], capture_output=True, text=True)
    assert leftover.stdout == ""
