"""Inside a traced step equal whole numbers keep their order, whoever sorts them."""

import pytest
import torch

from ttrace_torch.capture.stable_sorts import stable_sorts

# Long enough for the kernels that mix equal numbers.
NUMBERS = torch.randint(3, (4096,), generator=torch.Generator().manual_seed(1))
STABLE = {down: torch.sort(NUMBERS, stable=True, descending=down)[1] for down in (False, True)}
ROWS = NUMBERS.view(64, 64)


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (lambda: torch.sort(NUMBERS)[1], STABLE[False]),
        (lambda: torch.sort(NUMBERS, 0, True).indices, STABLE[True]),
        (lambda: torch.sort(NUMBERS, descending=True).indices, STABLE[True]),
        (lambda: torch.sort(input=NUMBERS, dim=-1).indices, STABLE[False]),
        (lambda: NUMBERS.sort().indices, STABLE[False]),
        (lambda: NUMBERS.argsort(), STABLE[False]),
        (lambda: NUMBERS.argsort(0, True), STABLE[True]),
        (lambda: torch.argsort(NUMBERS), STABLE[False]),
        (lambda: torch.argsort(ROWS, dim=0), torch.sort(ROWS, stable=True, dim=0)[1]),
        (lambda: ROWS.sort(0).indices, torch.sort(ROWS, stable=True, dim=0)[1]),
    ],
)
def test_equal_numbers_keep_their_order(sort, expected):
    with stable_sorts():
        assert torch.equal(sort(), expected)


def test_what_else_sorts_is_as_it_was():
    before = torch.sort, torch.argsort, torch.Tensor.sort, torch.Tensor.argsort
    values = torch.randn(50)
    with stable_sorts():
        assert torch.equal(torch.sort(values).values, values.sort().values)
        assert sorted([3, 1, 2]) == [1, 2, 3]
        assert NUMBERS.sort(stable=False).values.tolist() == sorted(NUMBERS.tolist())
    assert before == (torch.sort, torch.argsort, torch.Tensor.sort, torch.Tensor.argsort)
    assert "sort" not in vars(torch.Tensor)


def test_a_job_that_fails_leaves_nothing_behind():
    before = torch.sort
    with pytest.raises(ValueError, match="of the job"), stable_sorts():
        raise ValueError("of the job")
    assert torch.sort is before
