"""What `audit` says of the page's trainer: what a sum lacks, what is clipped, what is given."""

from __future__ import annotations

import pytest
from support.reports import read_report
from support.text_report import answer
from support.ttrace_cli import DIVERGED, MATCH, UNUSABLE, run_ttrace

from by_hand.page import edited, train, trainer

CLIPPED = (
    "        optimizer.step()\n",
    "        tracer.grad_norm(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.9))\n"
    "        optimizer.step()\n",
)
EARLY = (  # the gradients of the last micro-batch come after the norm was taken
    "            (loss / MICROBATCHES).backward()\n",
    "            if number < 3:\n"
    "                (loss / MICROBATCHES).backward()\n"
    "            else:\n"
    "                kept = [one.grad.clone() for one in model.parameters()]\n"
    "                (loss / MICROBATCHES).backward()\n"
    "                for one, grad in zip(model.parameters(), kept):\n"
    "                    one.grad.copy_(grad)\n",
)


@pytest.fixture(scope="module")
def specification(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    file = folder / "specification.json"
    train(trainer(), folder / "ref.h5", TTRACE_SPECIFICATION=str(file))
    return file


def audited(specification, out, *edits, **layout):
    train(edited(trainer(), *edits), out, **layout)
    report = out.with_suffix(".json")
    done = run_ttrace("audit", out, "--specification", specification, "--json", report)
    return done, read_report(report)


def test_learning_rates_are_named_as_given(specification, tmp_path):
    done, report = audited(specification, tmp_path / "run.h5")
    assert done.returncode == MATCH, done.stdout
    assert report["given_settings"] == [{"name": "lr", "values": [0.001], "parameters": 16}]
    assert "taken as given: lr 0.001 of 16 parameters" in done.stdout.replace("\n    ", " ")


def test_a_sum_says_which_micro_batch_it_lacks(specification, tmp_path):
    done, report = audited(specification, tmp_path / "run.h5", EARLY)
    assert done.returncode == DIVERGED, done.stdout
    assert len(report["findings"]) == 1, done.stdout
    assert "it lacks micro-batch 3" in done.stdout.replace("\n              ", " "), done.stdout


def test_gradients_that_are_not_clipped_are_not_called_so(specification, tmp_path):
    healthy, _ = audited(specification, tmp_path / "healthy.h5", CLIPPED)
    assert healthy.returncode == MATCH, healthy.stdout
    done, _ = audited(specification, tmp_path / "run.h5", EARLY, CLIPPED)
    assert done.returncode == DIVERGED, done.stdout
    assert "clipped by" not in done.stdout, done.stdout


def test_one_cause_in_several_steps_is_one_finding(specification, tmp_path):
    doubled = (
        '            parameter.grad = all_reduce(parameter.grad, "dp")\n',
        '            parameter.grad = all_reduce(parameter.grad, "dp")\n'
        '            if name.endswith("down.weight"):\n'
        "                parameter.grad = parameter.grad * TP\n",
    )
    steps = ("MICROBATCHES, STEPS = 48, 16, 2, 8, 4, 1", "MICROBATCHES, STEPS = 48, 16, 2, 8, 4, 2")
    done, report = audited(
        specification, tmp_path / "run", doubled, steps, tp=2, TTRACE_STEPS="0,1"
    )
    assert done.returncode == DIVERGED
    assert len(report["findings"]) == 1, done.stdout
    assert "in 2 steps" in answer(done.stdout) + done.stdout


def test_infinities_come_first(specification, tmp_path):
    infinite = (
        "        optimizer.step()\n",
        "        if tp_rank == 1:\n"
        "            model.head.weight.grad[3] = float('inf')\n"
        "        optimizer.step()\n",
    )
    done, _ = audited(specification, tmp_path / "run", infinite, tp=2)
    assert done.returncode == DIVERGED
    assert "elements are not finite, all on rank 1" in done.stdout.replace("\n", " "), done.stdout


def test_another_model_is_named(specification, tmp_path):
    other = trainer().replace("self.norm", "self.first").replace("self.up", "self.wide")
    other = other.replace("self.down", "self.narrow").replace("self.head", "self.unembed")
    for old, new in (("*.up", "*.wide"), ("*.down", "*.narrow"), ('"head"', '"unembed"')):
        other = other.replace(old, new)
    other = other.replace('"*norm"', '"*first"')
    train(other, tmp_path / "run.h5")
    done = run_ttrace("audit", tmp_path / "run.h5", "--specification", specification)
    assert done.returncode == UNUSABLE, done.stdout
    assert "is of another model than" in done.stderr and "others, such as" in done.stderr
