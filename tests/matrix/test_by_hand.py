"""Context and expert parallelism that the user's own function makes."""

from __future__ import annotations

import pytest

from matrix import by_hand
from ttrace_torch.testing import MatrixError, assert_equivalent

pytestmark = pytest.mark.usefixtures("program")


def matrix(cache, layouts, parallelize=by_hand.parallelize):
    return assert_equivalent(
        by_hand.Model,
        by_hand.batches,
        layouts,
        loss=by_hand.loss_of,
        parallelize=parallelize,
        cache=cache,
        limit=120,
        noise=1,
    )


def failed(cache, layouts, parallelize):
    with pytest.raises(AssertionError) as raised:
        matrix(cache, layouts, parallelize)
    return str(raised.value).strip().splitlines()


def test_healthy_layouts_match(cache):
    layouts = ["cp2", "ep2", "fsdp2+cp2"]
    found = matrix(cache, layouts)
    assert [row.word("compare") for row in found.rows] == ["match"] * 3
    assert [row.word("audit") for row in found.rows] == ["holds"] * 3
    # Sums over ranks have another order: that they use nothing would mean that none was made.
    assert all(0 < row.compared.used < 1 for row in found.rows)


def test_gradients_that_are_not_summed_over_context(cache):
    first = failed(cache, ["cp2"], by_hand.forgets_context)[0]
    assert first.startswith("DIVERGED  cp2 (1 of 1 layout): the gradients of ")
    assert "over cp (2 ranks)" in first


def test_experts_that_are_swapped(cache):
    first = failed(cache, ["ep2"], by_hand.swaps_experts)[0]
    assert first.startswith("DIVERGED  ep2 (1 of 1 layout): ")
    assert "layers.1.experts" in first


def test_what_is_not_cut_fails_with_the_argument(cache):
    lines = failed(cache, ["cp2", "ep2"], by_hand.cuts_nothing)
    assert lines[0].startswith("FAILED  cp2, ep2 (2 of 2 layouts): parallelize: 'cp2' has context")
    assert "no layout that parallelize returned lies in parts over cp" in lines[0]
    (first, *_) = failed(cache, ["ep2"], None)
    assert "parallelize: 'ep2' has expert parallelism, and nothing says how to cut a Model" in first


def test_stages_are_not_cut_over_context(cache):
    with pytest.raises(MatrixError, match="'pp2:1f1b.cp2': a matrix cuts no stages over cp; run a"):
        matrix(cache, ["pp2:1f1b+cp2"])
