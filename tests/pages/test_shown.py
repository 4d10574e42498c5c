"""The comparison of a page with a printed text can fail."""

import pytest

from pages.shown import missing

PRINTED = (
    "MATCH  3 tensors\n\n  3 tensors: 3 match\n  cpu x86-64-v4, 2 threads · 1.5 MB in 0.05 s\n"
)


@pytest.mark.parametrize(
    "shown",
    [
        [],
        ["MATCH  3 tensors"],
        ["MATCH  3 ..."],
        ["MATCH  3 tensors", "", "  3 tensors: 3 match", "..."],
        ["...", "  cpu x86-64-v3, 8 threads · 1.5 MB in 7 s", ""],
    ],
)
def test_what_is_printed_is_found(shown):
    assert missing(shown, PRINTED) is None


@pytest.mark.parametrize(
    "shown",
    [
        ["MATCH  4 tensors"],
        ["MATCH  4 ..."],
        ["MATCH  3 tensors", "  3 tensors: 3 match"],
        ["MATCH  3 tensors", "", "  3 tensors: 3 match"],
        ["...", "  cpu x86-64-v3, 8 threads · 1.6 MB in 7 s"],
        ["...", "  3 tensors: 3 match", "MATCH  3 tensors"],
    ],
)
def test_what_is_not_printed_is_named(shown):
    assert missing(shown, PRINTED)
