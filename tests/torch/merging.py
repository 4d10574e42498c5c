"""Whole tensors by `ttrace merge`, the tool's own reading of a trace."""

from __future__ import annotations

from support.ttrace_cli import MATCH, run_ttrace
from trace_reading import Trace


def merged(trace):
    """What `ttrace merge` makes of a trace: a trace of one rank, with every tensor whole.

    Indices are layout, of which nothing is left.
    """
    out = trace.path.with_name(trace.path.name + "_merged.h5")
    done = run_ttrace("merge", trace.path, "-o", out)
    assert done.returncode == MATCH, done.stdout + done.stderr
    whole = Trace(out)
    assert set(whole.entries) == {key for key in trace.entries if key[0] != "index"}
    return whole
