"""Every bug is found by `ttrace compare`, at the right place and nowhere else.

The cause is what is named today. Where it is not among `EXPECTED`'s, a better one is to come.
"""

import pytest

from gallery.agreement import Agreement
from gallery.bugs import BUGS
from gallery.expected import EXPECTED, named_cause

# Name and kind of the first finding, and its cause; the outcome where it says more than diverged.
FIRST = {
    "P1": ("embedding.word", "output", "mask_or_rows"),
    "P2": ("layers.1.mlp.fc2.weight", "param_grad", "unknown"),
    "P3": ("loss", "grad_output", "scaled"),
    "P4": ("embedding.word.weight", "main_grad", "scaled"),
    "P5": ("embedding.word.weight", "main_grad", "replica_conflict"),
    "P6": ("layers.0.mlp.router.weight", "main_grad", "missing_reduction"),
    "P7": ("layers.0.attn.qkv.fp8", "output", "non_finite"),
    "P8": ("layers.0.attn.proj.fp8.input_scale", "output", "replica_conflict"),
    "P9": ("layers.0.norm1.weight", "param_after_step", "stale"),
    "P10": ("layers.2.norm1.weight", "param", "missing_layer"),
    "P11": ("layers.1.mlp.fc1.weight", "param_grad", "wrong_order"),
    "P12": ("layers.0.norm1.weight", "main_grad", "missing_reduction"),
    "P13": ("layers.1.attn.qkv", "grad_output", "unknown"),
    "P14": ("final_norm.weight", "param_grad", "double_reduction"),
    "G1": ("layers.1.norm2", "grad_output", "replica_conflict"),
    "G2": ("layers.1.norm2", "grad_output", "missing_reduction"),
    "G3": ("layers.1.attn.kv", "grad_output", "missing_reduction"),
    "G4": ("layers.0.attn.proj", "output", "offset"),
    "G5": ("layers.1.mlp.router", "grad_output", "unknown"),
    "G6": ("layers.1", "grad_output", "scaled"),
    "G7": ("layers.0.mlp.experts.0.fc1", "main_grad", "scaled"),
    "G8": ("loss.factor", "scalar", "unknown"),
    "G9": ("embedding.word.weight", "main_grad", "replica_conflict"),
    "G10": ("embedding.word.weight", "param_after_step", "scaled"),
    "G11": ("layers.1", "input", "other_layer"),
    "G12": ("(model)[labels]", "input", "shifted"),
    "G13": ("layers.1.mlp", "grad_output", "mask_or_rows"),
    "G14": ("layers.1.mlp.fc2.weight", "param_grad", "stale"),
    "G15": ("embedding.word.weight", "main_grad", "lower_precision"),
    "G16": ("layers.0.mlp.fc1.weight", "main_grad", "missing_reduction"),
}


def test_all_bugs_are_expected() -> None:
    assert set(EXPECTED) == set(BUGS) == set(FIRST)
    for bug, expected in EXPECTED.items():
        assert BUGS[bug].needs <= expected.config.features


@pytest.mark.parametrize("bug", EXPECTED)
def test_found(agreement: Agreement, bug: str) -> None:
    found = agreement.check_bug(bug)
    assert (found["key"]["name"], found["key"]["kind"], named_cause(found)) == FIRST[bug]
