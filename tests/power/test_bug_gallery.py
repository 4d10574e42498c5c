"""What the study of the gallery is made of. Its runs are those of tests/gallery/test_found.py."""

from gallery.bugs import BUGS
from gallery.expected import EXPECTED, module_of

from power.bug_gallery import layout
from power.gallery_runs import Told, _first_of
from power.two_bugs import COUNT, mask, pairs


def test_pairs_are_fixed_and_show_both_bugs() -> None:
    chosen = pairs()
    assert len({frozenset(pair[:2]) for pair in chosen}) == COUNT
    assert chosen == pairs()
    for first, second, config in chosen:
        assert BUGS[first].needs | BUGS[second].needs <= config.features
        assert not mask(first, second)


def test_pairs_that_mask_each_other() -> None:
    assert mask("P4", "G15") == mask("P12", "P4") == "both make the same tensors wrong first"
    assert mask("P1", "P7").startswith("P7: ")
    assert mask("P3", "P12") == ""


def test_modules_and_layouts_are_described() -> None:
    assert module_of("main_grad", "layers.0.mlp.fc1.weight") == "layers.0.mlp.fc1"
    assert module_of("input", "(model)[labels]") == "(model)"
    assert EXPECTED["G1"].names_module("layers.0.norm2")
    assert not EXPECTED["G1"].names_module("layers.0.mlp")
    assert layout(EXPECTED["P6"].config) == "experts 4 tp 2 sp"


def test_what_a_command_names_first() -> None:
    broken = (
        "BROKEN  x\n\n  first at layers.1.mlp · output · mb 0: not what input gives (1 finding)"
    )
    assert _first_of(1, broken, "") == Told(1, "layers.1.mlp", "output")
    assert _first_of(0, "HOLDS  12 of 12 tensors\n", "") == Told(0)
    assert _first_of(2, "", "ttrace: no file\n") == Told(2, note="ttrace: no file")
