"""The corpus of merged manifests, which the C++ tests read too (schemas/trace-v2.md, "Merging")."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ttrace_torch as tt

try:
    from ttrace_torch.union import merge_manifests
except ImportError:  # its name before the collector's rooms were made
    from ttrace_torch.union import unite as merge_manifests

CASES = sorted((Path(__file__).parents[1] / "conformance" / "manifest_merge").glob("*.json"))


def test_the_corpus_is_there():
    assert len(CASES) >= 25


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_ranks_manifests_are_merged_as_the_corpus_says(path):
    case = json.loads(path.read_text(encoding="utf-8"))
    ranks = dict(enumerate(case["ranks"]))
    if case["merged"] is None:
        with pytest.raises(tt.TraceError):
            merge_manifests(ranks)
    else:
        assert merge_manifests(ranks) == case["merged"], case["about"]
