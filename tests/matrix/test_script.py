"""A training script of one's own in several layouts, and what is said where it cannot be run."""

from __future__ import annotations

import pytest
from support.averaging_job import SCRIPT
from support.ttrace_cli import REPOSITORY, ttrace_binary

from ttrace_torch.matrix.__main__ import main
from ttrace_torch.testing import MatrixError, assert_equivalent

FEW = {"noise": 1, "limit": 120}


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    monkeypatch.setenv("TTRACE", str(ttrace_binary()))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def arguments(layout):
    return ["1", "4", *(["bug"] if layout == "never_averaged" else [])]


def test_a_healthy_layout_and_one_with_a_bug(script, tmp_path):
    with pytest.raises(AssertionError) as raised:
        assert_equivalent(script, arguments, {"dp2": 2, "never_averaged": 2}, **FEW)
    first, _, *rows = str(raised.value).strip().splitlines()
    assert first.startswith("DIVERGED  never_averaged (1 of 2 layouts): the gradients of all 5 par")
    assert [row.split()[:3] for row in rows[:2]] == [
        ["dp2", "match", "holds"],
        ["never_averaged", "diverged", "broken"],
    ]


def test_noise_runs_are_used_again_while_the_reference_has_the_same_bytes(script):
    # What decides on the weights is no file that Python imports.
    seed = script.with_name("seed.txt")
    script.write_text(SCRIPT.replace("seed(0)", f"seed(int(open({str(seed)!r}).read()))"))

    def origin(value):
        seed.write_text(value)
        return assert_equivalent(script, arguments, {"alone": 1}, **FEW).notes[0][1]

    first, second, other = origin("1"), origin("1"), origin("2")
    assert "made now" in first and "from the cache" in second and "made now" in other
    assert first.split(",")[0] == second.split(",")[0]


def test_context_parallelism_is_that_of_the_script(script):
    """The miniature trainer cuts the batch along the sequence itself."""
    trainer = REPOSITORY / "tests" / "gallery" / "train.py"
    script.write_text(
        "import os, runpy, sys\n"
        "sys.argv += ['--trace', os.environ['TTRACE_OUT'], '--microbatches', '4']\n"
        "sys.argv += ['--perturb', os.environ.get('TTRACE_NOISE', '0')]\n"
        f"sys.path.insert(0, {str(trainer.parent)!r})\n"
        f"runpy.run_path({str(trainer)!r}, run_name='__main__')\n"
    )
    found = assert_equivalent(script, lambda layout: ["--cp", "2"] * bool(layout), ["cp2"], **FEW)
    assert found.rows[0].word("compare") == "match"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import sys; sys.exit(7)", "rank 0 ended with 7 ("),
        ("raise ValueError('no data')", "rank 0 raised ValueError: no data at "),
        ("print('nothing')", "recorded nothing; it calls ttrace_torch.trace() without out= ("),
    ],
)
def test_scripts_that_record_nothing(script, text, why):
    script.write_text(text)
    with pytest.raises(MatrixError) as raised:
        assert_equivalent(script, lambda layout: [], ["dp2"], **FEW)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("layouts", "why"),
    [
        ([], "layouts: give at least one"),
        (["dp200"], "'dp200' needs 200 processes"),
        ({"../out": 2}, "'../out' is no name of a folder"),
        (["dp"], None),
    ],
)
def test_layouts_that_there_cannot_be(script, layouts, why):
    if why is None:
        layouts, why = {"dp": 0}, "'dp' needs 0 processes"
    with pytest.raises(MatrixError, match=why.replace("(", r"\(")):
        assert_equivalent(script, arguments, layouts, **FEW)


def test_the_command_runs_a_script(script, tmp_path, capsys):
    job = tmp_path / "script_job.py"
    job.write_text('script = "none.py"\narguments = list\nlayouts = ["dp2"]\n')
    assert main([str(job)]) == 2
    assert f"{tmp_path / 'none.py'}: no such file" in capsys.readouterr().err
