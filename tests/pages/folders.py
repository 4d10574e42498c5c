"""The files that the commands of a page find: testdata/tiny_gpt, and others for some blocks."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from gallery.agreement import ALONE
from gallery.expected import EXPECTED
from gallery.together import traced
from support.synth import synth, tensors
from support.ttrace_cli import TESTDATA, run_ttrace

from pages.blocks import blocks

TWO_BUGS = dataclasses.replace(EXPECTED["P11"].config, bug=("P1", "P11"))


def fresh(folder: Path) -> Path:
    """A copy of testdata/tiny_gpt. Its buggy run is also `run`, as most pages call theirs."""
    shutil.copytree(TESTDATA, folder, dirs_exist_ok=True)
    shutil.copytree(TESTDATA / "tp2sp_p12", folder / "run")
    return folder


def two_bugs(folder: Path) -> None:
    """A pair of runs with two bugs, and the same pair under the plan that `localize` writes."""
    reference = dataclasses.replace(TWO_BUGS, **ALONE, bug=())
    for name in ("run", "ref.h5"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    traced(reference, folder / "ref.h5")
    traced(TWO_BUGS, folder / "run")
    plan = folder / "made.json"
    done = run_ttrace("localize", "ref.h5", "run", "--plan", plan, cwd=folder)
    assert done.returncode == 1, done.stderr
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TTRACE_PLAN", str(plan))
        traced(reference, folder / "rewritten_ref.h5")
        traced(TWO_BUGS, folder / "rewritten")


def other_epsilon(folder: Path) -> None:
    """The specification of code whose norms have another epsilon."""
    text = (folder / "specification.json").read_text()
    assert text.count('"eps":1e-05') == 4
    (folder / "ours.json").write_text(text.replace('"eps":1e-05', '"eps":1e-06'))


def other_names(folder: Path) -> None:
    """A reference of another framework, and a run whose layout was recorded wrong."""
    shutil.rmtree(folder / "run")
    synth(folder / "hf_ref.h5", tensors(4, [16, 8], name="model.layers.{i}.weight", kind="param"))
    cut = {"tp": {"shard": 0}}
    ours = tensors(4, [16, 8], name="decoder.layers.{i}.weight", kind="param", placements=cut)
    synth(folder / "run", ours, "--noise", "1", mesh={"tp": 2})
    rule = {"name": "decoder.*", "placements": cut}
    rules = {"schema": "ttrace.layout/1", "rules": [rule]}
    (folder / "fixed.json").write_text(json.dumps(rules))


def a_job(folder: Path) -> None:
    """The job of the page on matrices, and a cache of its own."""
    (text,) = (b.text for b in blocks("python") if b.text.startswith("# job.py\n"))
    (folder / "job.py").write_text(text)


# By the first command of a block.
PREPARED: dict[str, Callable[[Path], None]] = {
    "ttrace localize ref.h5 run/ --plan plan.json": two_bugs,
    "ttrace localize ref.h5 tp2sp --specification specification.json"
    " --candidate-specification ours.json --all": other_epsilon,
    "ttrace lint run/ --layout fixed.json": other_names,
    "python -m ttrace_torch.matrix job.py --layouts ddp2 tp2 fsdp2+tp2": a_job,
}
