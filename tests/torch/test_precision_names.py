"""`run.precision`: what a user says, and the type that the step computed in."""

import pytest

from ttrace_torch.base.dtypes import with_computed


@pytest.mark.parametrize(
    ("told", "computed", "found"),
    [
        (None, {"bfloat16"}, "bfloat16"),
        ("", {"float16", "bfloat16"}, "bfloat16"),
        ("bf16", {"bfloat16"}, "bf16"),
        ("torch.bfloat16", {"bfloat16"}, "torch.bfloat16"),
        ("FP8", {"bfloat16"}, "FP8"),
        ("fp32, bf16", {"float16"}, "fp32, bf16"),
        ("fp32", {"tf32"}, "fp32, tf32"),
        ("bf16 autocast", {"bfloat16"}, "bf16 autocast, bfloat16"),
        ("not bf16", {"bfloat16"}, "not bf16, bfloat16"),
    ],
)
def test_the_coarsest_type_is_always_named(told, computed, found):
    assert with_computed(told, computed) == found
