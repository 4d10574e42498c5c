"""scripts/nightly/night.sh with real jobs: what a team finds in the morning after each night."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.averaging_job import FORKED_TORCHRUN, SCRIPT
from support.python_runs import python_command
from support.ttrace_cli import (
    DIVERGED,
    INCONCLUSIVE,
    MATCH,
    REPOSITORY,
    TESTDATA,
    UNUSABLE,
    ttrace_binary,
)

Done = subprocess.CompletedProcess[str]
NIGHTLY = REPOSITORY / "scripts" / "nightly"


def night(folder: Path, reference: str, layouts: dict[str, str], *flags: str) -> Done:
    # A night is named by its second.
    while (folder / "nights" / time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())).exists():
        time.sleep(0.05)
    jobs = [part for name, job in layouts.items() for part in ("--layout", f"{name}={job}")]
    command = [NIGHTLY / "night.sh", "--reference", reference, *jobs, "--noise", "0"]
    return subprocess.run(
        [*command, "--ttrace", ttrace_binary(), *flags],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def recorded(folder: Path, run: str, *flags: str) -> Done:
    """A night whose jobs are traces of the miniature trainer, recorded before."""
    at = shlex.quote(str(TESTDATA))
    reference = f'cp {at}/ref.h5 "$TTRACE_OUT"; cp {at}/specification.json "$TTRACE_SPECIFICATION"'
    return night(folder, reference, {"tp2": f'cp -r {at}/{run} "$TTRACE_OUT"'}, *flags)


def nights(folder: Path) -> list[Path]:
    return sorted((folder / "nights").glob("20*"))


def known(folder: Path, expires: str) -> Path:
    entry = {"owner": "the tp team", "reason": "norms", "expires": expires}
    bound = {"cause": "missing_reduction", "axis": "tp"}
    entries = [{**entry, "pattern": "*/main_grad/*", "bound": bound}]
    file = folder / "known.json"
    file.write_text(json.dumps({"schema": "ttrace.known/1", "known": entries}))
    return file


def test_six_nights(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    send = ("--send", f"cat >> {shlex.quote(str(mail))}", "--keep", "3")
    healthy, bug = "tp2sp", "tp2sp_p12"

    done = recorded(tmp_path, healthy, *send, "--require", "loss,main_grad")
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert "tp2          MATCH  " in done.stdout and done.stdout.endswith("nothing new\n")
    assert not mail.exists()
    (first,) = nights(tmp_path)
    kept = {path.name for path in first.iterdir()}
    assert {"tp2.json", "tp2.html", "tp2.md", "tp2.xml", "tp2.txt", "tp2.log"} <= kept
    assert not {"ref.h5", "tp2"} & kept  # traces are large

    done = recorded(tmp_path, bug, *send)
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert "tp2: NEW  21 tensors newly diverged" in mail.read_text()
    newest = nights(tmp_path)[-1]
    assert (newest / "tp2.localize.txt").read_text().startswith("FINDINGS")
    assert json.loads((newest / "tp2.diff.json").read_text())["verdict"] == "new"
    mail.unlink()

    done = recorded(tmp_path, bug, *send)
    assert done.returncode == DIVERGED and done.stdout.endswith("nothing new\n"), done.stdout
    assert not mail.exists()

    done = recorded(tmp_path, bug, *send, "--known", str(known(tmp_path, "2999-12-31")))
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert "MATCH but for 1 known" in done.stdout and not mail.exists()

    done = recorded(tmp_path, bug, *send, "--known", str(known(tmp_path, "2026-01-01")))
    assert done.returncode == DIVERGED and "expired" in mail.read_text(), done.stdout
    mail.unlink()

    done = recorded(tmp_path, healthy, *send)
    assert done.returncode == MATCH and done.stdout.endswith("nothing new\n"), done.stdout
    assert len(nights(tmp_path)) == 3  # --keep


def test_a_kind_that_nobody_recorded(tmp_path: Path) -> None:
    done = recorded(tmp_path, "tp2sp", "--require", "buffer")
    assert done.returncode == INCONCLUSIVE and "buffer was required" in done.stdout


def test_a_night_of_real_jobs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    reference = f"{shlex.quote(sys.executable)} train.py 1 4"
    # The reference is started as users do. The others fork from a process that has imported torch.
    torchrun = shlex.join([*python_command(), *FORKED_TORCHRUN, "--nproc-per-node", "2"])
    layouts = {
        "ddp2": f"{torchrun} train.py 1 4",
        "buggy": f"{torchrun} train.py 1 4 bug",
        "broken": "echo no such node >&2; exit 7",
    }
    done = night(tmp_path, reference, layouts)
    assert done.returncode == UNUSABLE, done.stdout + done.stderr
    assert "ddp2         MATCH  " in done.stdout
    assert "buggy        DIVERGED  " in done.stdout  # each layout is judged whatever the others do
    assert "broken: the job failed: no such node" in done.stdout


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--reference", "true"], "--layout NAME='COMMAND' is missing"),
        (["--layout", "a=true"], "--reference 'COMMAND' is missing"),
        (["--layout", "../a=true"], "is not NAME='COMMAND'"),
        (["--keep", "0", "--reference", "true", "--layout", "a=true"], "is not a number of nights"),
        (["--what", "x"], "--what is no option"),
    ],
)
def test_a_wrong_command_line(tmp_path: Path, flags: list[str], why: str) -> None:
    done = subprocess.run(
        [NIGHTLY / "night.sh", *flags], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == UNUSABLE and why in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_examples_only_call_the_script() -> None:
    examples = NIGHTLY / "examples"
    for name in ("github.yml", "gitlab.yml", "kubernetes.yaml"):
        text = (examples / name).read_text()
        assert "scripts/nightly/examples/job.sh" in text and "ttrace compare" not in text
    assert "job.sh" in (examples / "slurm.sh").read_text()
