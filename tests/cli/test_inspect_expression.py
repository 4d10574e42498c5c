"""ttrace inspect --expression: what a tensor should follow from."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.ttrace_cli import MATCH, TESTDATA, UNUSABLE

from .conftest import Run
from .small_traces import check_refused

SPECIFICATION = TESTDATA / "specification.json"
TENSOR = ["layers.0.attn.qkv", "--kind", "output"]


def test_an_expression_is_found_beside_the_trace(ttrace: Run) -> None:
    named = ttrace(
        "inspect", TESTDATA / "tp2sp", *TENSOR, "--expression", "--specification", SPECIFICATION
    )
    assert named.returncode == MATCH
    assert "matmul(4, 5)" in named.stdout
    assert "the trace holds everything that it reads" in named.stdout
    for run in (TESTDATA / "tp2sp", f"{TESTDATA / 'tp2sp'}/"):
        assert ttrace("inspect", run, *TENSOR, "--expression").stdout == named.stdout


def test_every_tensor_of_a_trace_has_an_answer(ttrace: Run) -> None:
    done = ttrace("inspect", TESTDATA / "ref.h5", "--expression")
    assert done.returncode == MATCH
    sections = done.stdout.strip().split("\n\n")
    assert len(sections) == 202
    answers = [section.rpartition("\n  ")[2].split("  ")[0] for section in sections]
    assert {answer: answers.count(answer) for answer in set(answers)} == {
        "judged": 172,
        "given": 30,
    }


def test_no_specification_is_refused_with_the_way_out(ttrace: Run, tmp_path: Path) -> None:
    shutil.copy(TESTDATA / "ref.h5", tmp_path)
    done = ttrace("inspect", tmp_path / "ref.h5", *TENSOR, "--expression")
    assert done.returncode == UNUSABLE
    check_refused(done, "TTRACE_SPECIFICATION=FILE")
    done = ttrace("inspect", TESTDATA / "ref.h5", "--specification", SPECIFICATION)
    assert done.returncode == UNUSABLE
    check_refused(done, "--specification needs --expression")


def test_a_specification_of_another_model_is_refused(ttrace: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"schema": "ttrace.specification/1", "patterns": [], "tensors": []}')
    done = ttrace("inspect", TESTDATA / "ref.h5", "--expression", "--specification", other)
    assert done.returncode == UNUSABLE
    check_refused(done, "has no tensor of")
