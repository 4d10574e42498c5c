"""Layouts that nobody gave are proposed from what the ranks recorded."""

from __future__ import annotations

import re

import pytest
from support.ttrace_cli import MATCH, run_ttrace

from by_hand.page import edited, train, trainer

TRACE = "tracer = tt.trace(model, optimizer, mesh=mesh, layouts=layouts)"
CLOSE = "tracer.close()  # tt\n"


def suggested(reference, out, given, **layout):
    """What `suggest_layouts` prints of a run that was recorded with the layouts `given`."""
    source = edited(
        trainer(),
        (TRACE, TRACE.replace("layouts=layouts", f"layouts={given}")),
        (CLOSE, f"tracer.suggest_layouts({str(reference)!r})\n"),
    )
    return train(source, out, **layout)


@pytest.mark.parametrize("layout", [{"tp": 2}, {"tp": 2, "sp": 1}, {"dp": 2, "tp": 2, "sp": 1}])
def test_the_lines_to_paste_make_the_run_match(reference, tmp_path, layout):
    said = suggested(reference[0], tmp_path / "without", "[]", **layout)
    lines = re.search(r"layouts=(\[.*?\n)ttrace: \]", said, re.S)[1].replace("ttrace: ", "") + "]"
    pasted = edited(trainer(), (TRACE, TRACE.replace("layouts=layouts", f"layouts={lines}")))
    assert "left out" not in train(pasted, tmp_path / "run", **layout)
    done = run_ttrace("compare", reference[0], tmp_path / "run", "--noise", reference[1])
    assert done.returncode == MATCH, lines + done.stdout


def test_layouts_that_fit_need_nothing(reference, tmp_path):
    said = suggested(reference[0], tmp_path / "run", "layouts", tp=2, sp=1)
    assert "the layouts fit the reference; nothing to suggest" in said


def test_no_reference_is_told(tmp_path):
    said = suggested(tmp_path / "none.h5", tmp_path / "run", "layouts", tp=2)
    assert "no layouts are suggested" in said and "none.h5" in said
