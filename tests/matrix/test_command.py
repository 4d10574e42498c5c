"""`python -m ttrace_torch.matrix`, as a user calls it, and two traces that are there already."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.ttrace_cli import TESTDATA, ttrace_binary

from ttrace_torch.matrix.__main__ import main
from ttrace_torch.testing import MatrixError, assert_equivalent

JOB = """\
from torch import nn
import torch

build = lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
batches = [(torch.randn(3, 4), torch.randn(3, 1)) for _ in range(2)]
loss = nn.functional.mse_loss
layouts = ["ddp2"]


def wrong():
    return {**globals(), "loss": lambda output, target: output.mean() / (output.shape[0] - 3)}


def nothing():
    return 3
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TTRACE", str(ttrace_binary()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def job(place, request):
    """A file whose name no other test imports."""
    path = place / f"job_{abs(hash(request.node.nodeid))}.py"
    path.write_text(JOB)
    return path


def test_a_job_is_read_and_its_layouts_are_trained(job, place, capsys):
    assert main([str(job)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("MATCH  1 layout agrees with one process and holds by itself; the")
    assert "ddp2: 2 rank(s)" in said.err
    assert len(list((place / "cache" / "ttrace" / "matrix").iterdir())) == 1
    assert not list(place.glob("ttrace_matrix_*"))


def test_a_function_of_a_job_and_a_quiet_answer(job, capsys):
    assert main([f"{job}:wrong", "--quiet", "--no-cache", "--layouts", "ddp1"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith(
        "DIVERGED  ddp1 (1 of 1 layout): the scalar loss.factor: is inf, and"
    )
    assert len(said.out.splitlines()) == 1 and not said.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere.py"], "nowhere.py: no such file"),
        (["{job}:nothing"], "nothing() returned a int, no dict"),
        (["{job}:absent"], "has no function 'absent'"),
        (
            ["{job}", "--layouts", "dp2"],
            "'dp2' is none of ddpN, fsdpN, tpN, sp, cpN, epN and ppN:SCHEDULE (did",
        ),
        (["{job}", "--out", "/dev/null/x"], "out='/dev/null/x': Not a directory"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_exit_code_2(job, capsys, arguments, text):
    assert main([argument.format(job=job) for argument in arguments]) == 2
    said = capsys.readouterr()
    assert text in said.err and len(said.err.splitlines()) == 1 and not said.out


def test_a_program_that_is_not_there_is_told(job, capsys, monkeypatch):
    monkeypatch.delenv("TTRACE")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert main([str(job)]) == 2
    assert (
        "the program ttrace is not here: put it on PATH, or set TTRACE" in capsys.readouterr().err
    )


def test_two_traces_are_compared(place):
    noise = sorted(TESTDATA.glob("noise*.h5"))
    found = assert_equivalent(TESTDATA / "ref.h5", TESTDATA / "tp2sp", noise=noise)
    assert str(found).startswith("MATCH  1 layout agrees with one process; the closest to its")
    assert not list(place.glob("ttrace_matrix_*"))
    with pytest.raises(
        AssertionError, match="DIVERGED  tp2sp_p12 .*were never summed over tp"
    ) as e:
        assert_equivalent(TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12", noise=noise)
    kept = Path(str(e.value).split("kept in ")[1].splitlines()[0])
    assert (kept / "compare.html").exists()
    shutil.rmtree(kept)


def test_a_trace_and_layouts_are_no_matrix():
    with pytest.raises(MatrixError, match="build is the path of a trace"):
        assert_equivalent("ref.h5", "run", ["ddp2"])
