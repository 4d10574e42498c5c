"""The registry of bugs, and that each switch moves what it says and nothing else."""

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from gallery import bugs
from gallery.config import Config
from gallery.conftest import NORMS
from gallery.init import initialise
from gallery.launch import launch
from gallery.model import Gpt
from gallery.parallel import ProcessMesh
from gallery.parameters import is_sequence_parallel

TP2_SP = Config(tp=2, sp=True)


@pytest.fixture(autouse=True)
def no_bug_stays_on() -> Iterator[None]:
    yield
    bugs.activate((), ())


def test_an_unknown_bug_is_refused() -> None:
    with pytest.raises(bugs.BugError, match="--bug P99: known are P1, P2"):
        bugs.activate(("P99",), {"tp", "sp"})


def test_a_misspelt_question_is_an_error() -> None:
    with pytest.raises(bugs.BugError, match="no bug is called p12"):
        bugs.active("p12")


@pytest.mark.parametrize("name", bugs.BUGS)
def test_a_bug_that_cannot_show_is_refused(name: str) -> None:
    bug = bugs.BUGS[name]
    for off in bug.needs:
        with pytest.raises(bugs.BugError, match=f"--bug {name} cannot show: this run has no {off}"):
            bugs.activate((name,), bug.needs - {off})
    bugs.activate((name,), bug.needs)
    assert bugs.active(name)


def test_the_trainer_refuses_a_bug_whose_axes_are_off() -> None:
    run = launch("--bug", "P12")
    assert run.exit_code == 2
    assert run.errors == "train.py: --bug P12 cannot show: this run has no sp and no tp\n"


def model(*names: str) -> Gpt:
    bugs.activate(names, TP2_SP.features)
    mesh = ProcessMesh(TP2_SP.mesh_sizes, rank=1)
    built = Gpt(dataclasses.replace(TP2_SP, bug=names), mesh)
    initialise(built, mesh, TP2_SP.seed)
    return built


def flagged(built: Gpt) -> set[str]:
    return {name for name, p in built.named_parameters() if is_sequence_parallel(p)}


def test_p12_takes_the_flag_from_the_norms_and_nothing_else() -> None:
    healthy, faulty = model(), model("P12")
    others = {"embedding.position.weight"} | {
        f"layers.{n}.{linear}.bias" for n in (0, 1) for linear in ("attn.proj", "mlp.fc2")
    }
    assert flagged(healthy) == NORMS | others
    assert flagged(faulty) == others
    for (name, a), (other_name, b) in zip(
        healthy.named_parameters(), faulty.named_parameters(), strict=True
    ):
        assert name == other_name
        assert a.shards == b.shards
        assert torch.equal(a, b)


def test_without_sequence_parallelism_nothing_is_flagged() -> None:
    config = Config(tp=2)
    assert flagged(Gpt(config, ProcessMesh(config.mesh_sizes))) == set()
