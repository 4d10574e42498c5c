"""Outputs: whole or absent, never through a link, in the place of regular files alone."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.ttrace_cli import INCONCLUSIVE, MATCH, UNUSABLE, ttrace_binary

from .conftest import Run
from .slow_traces import SLOW, write_zeros
from .small_traces import check_refused, write_pair

SECONDS = 120


def outputs(folder: Path) -> list[list[str | Path]]:
    """Every command that writes a file, but for the name of the file."""
    reference, run = write_pair(folder)
    return [
        ["compare", reference, run, "--json"],
        ["compare", reference, run, "--resume"],
        ["selftest", reference, run, "--json"],
        ["calibrate", reference, reference, "-o"],
        ["merge", run, "-o"],
        ["merge", run, "--force", "-o"],
        ["demo"],
    ]


def test_an_output_replaces_regular_files_only(ttrace: Run, tmp_path: Path) -> None:
    commands = outputs(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    link, dangling = tmp_path / "link.h5", tmp_path / "dangling.h5"
    link.symlink_to(victim)
    dangling.symlink_to(tmp_path / "nothing")
    pipe = tmp_path / "pipe.h5"
    os.mkfifo(pipe)
    names = set(tmp_path.iterdir())
    for command in commands:
        for path in (link, dangling, pipe):
            check_refused(ttrace(*command, path), f"{path}: ")
            assert set(tmp_path.iterdir()) == names, command
    assert victim.read_text() == "precious"
    assert os.readlink(link) == str(victim)


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null", "/dev/stdout"])
def test_devices_stay_what_they_are(ttrace: Run, tmp_path: Path, device: str) -> None:
    before = os.lstat(device)
    for command in outputs(tmp_path):
        check_refused(ttrace(*command, device), f"{device}: ")
        after = os.lstat(device)
        assert (after.st_ino, after.st_mode, after.st_rdev) == (
            before.st_ino,
            before.st_mode,
            before.st_rdev,
        )


def test_lint_writes_through_no_planted_link(ttrace: Run, tmp_path: Path) -> None:
    """The temporary name was that of the manifest and the process: it could be foreseen."""
    _, run = write_pair(tmp_path)
    manifest = run / "manifest.json"
    text = manifest.read_text()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    # The name that stood here before was manifest.json.<process>.tmp.
    for process in range(os.getpid(), os.getpid() + 400):
        (run / f"manifest.json.{process}.tmp").symlink_to(victim)
    manifest.unlink()
    ttrace("lint", run, "--write")
    assert victim.read_text() == "precious"
    manifest.unlink(missing_ok=True)
    manifest.symlink_to(victim)
    done = ttrace("lint", run, "--write")
    assert done.returncode == UNUSABLE
    assert victim.read_text() == "precious"
    manifest.unlink()
    manifest.write_text(text)


def test_merge_replaces_a_file_only_by_force(ttrace: Run, tmp_path: Path) -> None:
    _, run = write_pair(tmp_path)
    output = tmp_path / "merged.h5"
    output.write_text("old")
    check_refused(ttrace("merge", run, "-o", output), f"{output}: is there already", "--force")
    assert output.read_text() == "old"
    done = ttrace("merge", run, "-o", output, "--force")
    assert done.returncode == MATCH, done.stderr
    assert output.read_bytes().startswith(b"\x89HDF")
    assert ttrace("inspect", output).returncode == MATCH


def test_a_file_that_grows_too_large_is_told(tmp_path: Path) -> None:
    """SIGXFSZ would end the process; the limit is told instead, and the answer is given."""
    reference, run = write_pair(tmp_path)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    output = tmp_path / "out"
    output.mkdir()
    done = subprocess.run(
        [ttrace_binary(), "compare", reference, run, "--json", output / "report.json"],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == UNUSABLE
    assert "report.json: cannot be written: the file would be larger than this pro" in done.stderr
    assert done.stdout.startswith("MATCH")
    merged = subprocess.run(
        [ttrace_binary(), "merge", run, "-o", output / "merged.h5"],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert merged.returncode == UNUSABLE, merged.stderr
    assert not list(output.iterdir())


def wait_until(condition: object, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end and not condition():
        time.sleep(0.01)


SIGNALS = ("SIGHUP", "SIGTERM", "SIGINT", "SIGQUIT", "SIGUSR1")


@pytest.mark.parametrize(
    ("name", "to"),
    [
        *itertools.product(SIGNALS, ("both", "worker", "supervisor")),
        # The supervisor heeds no SIGXFSZ, and none that is killed can clean up.
        ("SIGXFSZ", "worker"),
        ("SIGKILL", "worker"),
    ],
)
def test_a_signal_leaves_no_temporary_file(tmp_path: Path, name: str, to: str) -> None:
    number = getattr(signal, name)
    pair = [write_zeros(tmp_path / each, *SLOW) for each in ("ref.h5", "run.h5")]
    output = tmp_path / "out"
    output.mkdir()
    process = subprocess.Popen(
        [ttrace_binary(), "compare", *pair, "--threads", "1", "--json", output / "report.json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: list(output.iterdir()), process)
    assert process.poll() is None
    if to == "both":
        os.killpg(process.pid, number)
    elif to == "supervisor":
        process.send_signal(number)
    else:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 1
        os.kill(int(children[0]), number)
    code = process.wait(timeout=SECONDS)
    left = [path.name for path in output.iterdir()]
    if name in ("SIGTERM", "SIGINT") and left:  # ends the comparison, with what is known
        assert (code, left) == (INCONCLUSIVE, ["report.json"])
    elif name == "SIGXFSZ":  # a reason why a file cannot be written, never an end
        assert (code, left) == (MATCH, ["report.json"])
    else:
        assert (code, left) == (-number, [])
