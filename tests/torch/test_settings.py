"""Wrong settings. Those of the environment are told and end no job; arguments in code throw."""

from __future__ import annotations

import json
import os
import re
import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch
from plans import write_plan
from process_groups import run_ranks
from small_models import WIDTH, TiedGPT, batch, cross_entropy, seeded, train_step
from torch import distributed, nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import assembly
from ttrace_torch.variables import OF_OTHERS, OF_TRACE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in os.environ:
        if name.startswith("TTRACE_"):
            monkeypatch.delenv(name)


def run(model=TiedGPT, **options):
    """Trains as a script does that knows nothing of the environment; gives losses and tracer."""
    made = seeded(model)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2)
    tracer = tt.trace(made, optimizer, **options)
    losses = []
    for step in range(3):
        losses.extend(train_step(made, tracer, optimizer, step=step))
    tracer.close()
    tracer.close()
    return losses, tracer


@cache
def untraced():
    """The losses without a trace."""
    return tuple(run()[0])


@cache
def of_yesterday():
    """The bytes of a trace."""
    with tempfile.TemporaryDirectory() as folder:
        run(out=Path(folder, "run.h5"))
        return Path(folder, "run.h5").read_bytes()


@pytest.fixture
def earlier(tmp_path, no_variables, capfd):
    """The bytes of a trace of yesterday at run.h5."""
    (tmp_path / "run.h5").write_bytes(of_yesterday())
    capfd.readouterr()
    return of_yesterday()


WRONG = [
    ("STEPS", "abc", "TTRACE_STEPS='abc': 'abc' is neither a number nor a range"),
    ("STEPS", "1-x", "TTRACE_STEPS='1-x': '1-x' is neither"),
    ("STEPS", "3-2", "TTRACE_STEPS='3-2': '3-2' is neither"),
    ("STEPS", "1,,2", "TTRACE_STEPS='1,,2': '' is neither"),
    ("RANKS", "-1", "TTRACE_RANKS='-1': '-1' is neither"),
    ("RANKS", "4", "TTRACE_RANKS='4': ranks: [4] of 1 rank"),
    ("RANKS", "0-", "TTRACE_RANKS='0-': ranks: a range has no end"),
    ("KINDS", "outptu", "TTRACE_KINDS='outptu': kinds: 'outptu' is none of param, "),
    ("KINDS", "output,", "TTRACE_KINDS='output,': kinds: '' is none of"),
    ("MODULES", "layer.*", "TTRACE_MODULES='layer.*': modules: 'layer.*' matches no module; near"),
    ("COMPRESS", "high", "TTRACE_COMPRESS='high' is no integer"),
    ("COMPRESS", "11", "TTRACE_COMPRESS='11': the levels are 0 to 9"),
    ("MEMORY", "much", "TTRACE_MEMORY='much' is no size"),
    ("MEMORY", "0", "TTRACE_MEMORY='0' is no size"),
    ("NOISE_AT", "layers.0", "TTRACE_NOISE_AT='layers.0' needs TTRACE_NOISE"),
]


@pytest.mark.parametrize("by_environment", [True, False], ids=["TTRACE_OUT", "out="])
@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_wrong_variable_ends_no_job(
    tmp_path, monkeypatch, capfd, earlier, name, value, message, by_environment
):
    expected = untraced()
    monkeypatch.setenv(f"TTRACE_{name}", value)
    options = {} if by_environment else {"out": tmp_path / "run.h5"}
    if by_environment:
        monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    losses, tracer = run(**options)
    assert tuple(losses) == expected
    assert not tracer.active and tracer.failed.startswith(message)
    warned, moved, reminded = capfd.readouterr().err.splitlines()
    rest = "; the job trains on, and nothing of it is recorded"
    assert warned == f"ttrace: {tracer.failed}{rest}"
    assert "a reference of TiedGPT, recorded " in moved
    assert moved.endswith(f"is now {tmp_path / 'run.h5.old'}")
    assert reminded == f"ttrace: nothing was recorded: {tracer.failed}"
    # Nobody judges yesterday's.
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5.old"]
    assert (tmp_path / "run.h5.old").read_bytes() == earlier


def test_what_was_moved_aside_before_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    for seed in (None, 1, 2):
        monkeypatch.setenv("TTRACE_KINDS", "loss")
        run(perturb=None if seed is None else tt.Perturb(seed))
        monkeypatch.setenv("TTRACE_KINDS", "los")
        run()
    seeds = [
        (Trace(tmp_path / f"run.h5.old{end}").manifest["run"].get("noise") or {}).get("seed")
        for end in ("", ".1", ".2")
    ]
    assert seeds == [None, 1, 2]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("NOISE", "seven", "TTRACE_NOISE='seven' is no integer"),
        ("NOISE", "-1", "seed -1"),
        ("PLAN", "nowhere.json", "plan nowhere.json: cannot be read"),
    ],
)
def test_noise_runs_and_rewritten_runs_end(tmp_path, monkeypatch, earlier, name, value, message):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    monkeypatch.setenv(f"TTRACE_{name}", value)
    with pytest.raises(tt.TraceError, match=message) as caught:
        run()
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run.h5").read_bytes() == earlier


def test_nobody_trains_with_a_noise_run_so_it_ends_for_all_wrong_settings(tmp_path, monkeypatch):
    plan = write_plan(tmp_path / "plan.json", ("norm", {"inputs": {"std": 1.0}}))
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    monkeypatch.setenv("TTRACE_KINDS", "outptu")
    for options in ({"perturb": tt.Perturb(1)}, {"plan": plan}):
        with pytest.raises(tt.TraceError, match="TTRACE_KINDS='outptu'"):
            run(**options)
    monkeypatch.setenv("TTRACE_NOISE", "1")
    with pytest.raises(tt.TraceError, match="TTRACE_KINDS='outptu'"):
        run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": "outptu"}, "kinds: 'outptu' is none of"),
        ({"modules": ["layer.*"]}, "modules: 'layer.*' matches no module"),
        ({"steps": "abc"}, "steps='abc': 'abc' is neither"),
        ({"ranks": [4]}, r"ranks: \[4\] of 1 rank"),
        ({"compress": 11}, "compress=11: the levels are 0 to 9"),
        ({"memory": "much"}, "memory='much' is no size"),
        ({"layouts": [tt.Layout("layer")]}, "layer"),
        ({"framework": "caffe"}, "framework='caffe' is none of"),
    ],
)
def test_arguments_in_code_throw_wherever_the_trace_goes(tmp_path, monkeypatch, options, message):
    with pytest.raises(tt.TraceError, match=message):
        run(out=tmp_path / "run.h5", **options)
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    with pytest.raises(tt.TraceError, match=message):
        run(**options)
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_cannot_be_traced(tmp_path, monkeypatch, capfd, earlier):
    expected = untraced()
    monkeypatch.setattr(assembly, "graphed_of", lambda names: ["layers.0"])
    with pytest.raises(tt.TraceError, match=r"layers\.0 runs in CUDA graphs"):
        run(out=tmp_path / "run.h5")
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    losses, tracer = run()
    assert tuple(losses) == expected and "layers.0 runs in CUDA graphs" in tracer.failed
    assert "; the job trains on" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5.old"]


def test_a_mistake_of_the_collector(tmp_path, monkeypatch, capfd):
    def broken(*_):
        raise AttributeError("no such thing")

    expected = untraced()
    monkeypatch.setattr(assembly, "framework_of", broken)
    with pytest.raises(AttributeError):
        run(out=tmp_path / "run.h5")
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    losses, tracer = run()
    assert tuple(losses) == expected
    assert tracer.failed == "the collector failed with AttributeError: no such thing"


def ranked(rank, folder):
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tracer = tt.trace(model, optimizer, mesh=tt.Mesh({"dp": 2}))
    with tracer.step(0), tracer.microbatch(rank):
        ids, targets = batch(seed=rank)
        tracer.loss(cross_entropy(model(ids), targets)).backward()
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)
        optimizer.step()
    tracer.close()
    (folder / f"done {rank}").write_text(str(tracer.failed))


def done_by(folder, count):
    """What failed on each rank; a rank that has not ended its training is missed."""
    return [(folder / f"done {rank}").read_text() for rank in range(count)]


def test_one_file_for_two_ranks(tmp_path, monkeypatch, capfd, earlier):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    run_ranks(2, ranked, tmp_path)
    for failed in done_by(tmp_path, 2):
        assert "run.h5: a single file holds one rank, the mesh has 2" in failed
    said = capfd.readouterr().err
    # Once for the job, not for each rank.
    assert said.count("; the job trains on") == said.count("ttrace: nothing was recorded") == 1
    assert said.count("run.h5.old") == 1
    assert not (tmp_path / "run.h5").exists()
    assert (tmp_path / "run.h5.old").read_bytes() == earlier


def test_a_wrong_variable_on_two_ranks(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run"))
    run_ranks(2, ranked, tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    capfd.readouterr()
    monkeypatch.setenv("TTRACE_KINDS", "outptu")
    run_ranks(2, ranked, tmp_path)
    assert all("outptu" in failed for failed in done_by(tmp_path, 2))
    said = capfd.readouterr().err
    assert said.count("; the job trains on") == said.count("run.old") == 1
    assert list((tmp_path / "run").iterdir()) == []
    after = {path.name: path.read_bytes() for path in (tmp_path / "run.old").iterdir()}
    assert after == before and "manifest.json" in after


@pytest.mark.parametrize("active", [True, False])
def test_unknown_variables_are_named_with_the_nearest(tmp_path, monkeypatch, capfd, active):
    if active:
        monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
        monkeypatch.setenv("TTRACE_STEPS", "0")
    for name, value in {
        "TTRACE_OUTPUT": "run",
        "TTRACE_KIND": "loss",
        "TTRACE_EMPTY": "",
        "TTRACE_SEED": "1",
        "TTRACE_CUBLAS": "/lib",
        "TTRACED": "1",
    }.items():
        monkeypatch.setenv(name, value)
    _, tracer = run()
    assert tracer.active == active
    words = "is no variable of ttrace and changes nothing; did you mean"
    said = capfd.readouterr().err.splitlines()
    assert said[:2] == [
        f"ttrace: TTRACE_KIND {words} TTRACE_KINDS?",
        f"ttrace: TTRACE_OUTPUT {words} TTRACE_OUT?",
    ]
    assert len(said) == (3 if active else 2)  # the last one says what was recorded


@pytest.mark.parametrize(("first", "begins", "recorded"), [("+2", 7, [7, 8]), ("+1", 0, [0])])
def test_the_first_steps_are_recorded_whatever_their_numbers(
    tmp_path, monkeypatch, capfd, first, begins, recorded
):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    monkeypatch.setenv("TTRACE_STEPS", first)
    model = nn.Linear(2, 1)
    tracer = tt.trace(model)
    for step in range(begins, begins + 3):
        with tracer.step(step):
            tracer.loss(model(torch.ones(3, 2)).sum()).backward()
    tracer.close()
    assert Trace(tmp_path / "run.h5").manifest["run"]["recorded"]["steps"] == recorded
    assert "alone" not in capfd.readouterr().err


def test_the_known_variables_are_those_that_are_read():
    read = set()
    patterns = (
        r'(?:getenv\(|environ(?:\.get\(|\[)|Variable = |: \w+ = |= )"(TTRACE_[A-Z_]+)"',
        r"\$\{?(TTRACE_[A-Z_]+)(?::-|:=|\})",
    )
    for folder, ends in (("lib", (".cpp", ".h", ".py")), ("apps", (".cpp", ".h")), ("scripts", "")):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and (not ends or path.suffix in ends) and path.suffix != ".pyc":
                text = path.read_text(encoding="utf-8", errors="ignore")
                for pattern in patterns:
                    read.update(re.findall(pattern, text))
    assert {"TTRACE_OUT", "TTRACE_CUBLAS", "TTRACE_CUDA_MODULE", "TTRACE_VENV"} <= read
    assert read <= {*OF_TRACE, *OF_OTHERS}


class Stage(nn.Module):
    """One of two stages, whose modules have the names of the whole model."""

    def __init__(self, number):
        super().__init__()
        self.layers = nn.ModuleDict({str(number): nn.Linear(WIDTH, WIDTH)})

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x)
        return x


def stage_rank(rank, folder):
    model = seeded(lambda: Stage(rank))
    tracer = tt.trace(model, mesh=tt.Mesh({"pp": 2}), framework="none")
    with tracer, tracer.step(0), tracer.microbatch(0):
        tracer.loss(model(torch.ones(1, WIDTH)).sum()).backward()
    (folder / f"done {rank}").write_text(str(tracer.failed))


@pytest.mark.parametrize(("pattern", "said"), [("layers.0", ""), ("layer.0", "'layer.0' matches")])
def test_a_stage_of_a_pipeline_lacks_the_modules_of_others(
    tmp_path, monkeypatch, capfd, pattern, said
):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run"))
    monkeypatch.setenv("TTRACE_MODULES", pattern)
    monkeypatch.setenv("TTRACE_STEPS", "0")
    monkeypatch.setenv("TTRACE_KINDS", "output")
    run_ranks(2, stage_rank, tmp_path)
    assert done_by(tmp_path, 2) == ["None", "None"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    names = {entry["name"] for entry in manifest["tensors"]}
    assert names == ({"layers.0"} if not said else set())
    assert said in capfd.readouterr().err


def test_one_word_records_what_a_replay_of_updates_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("TTRACE_KINDS", "optimizer,loss")
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    tracer = tt.trace(model, optimizer)
    for step in range(2):
        with tracer.step(step):
            tracer.loss(model(torch.ones(1, 2)).sum()).backward()
            optimizer.step()
    tracer.close()
    kinds = {entry["kind"] for entry in Trace(tmp_path / "run.h5").manifest["tensors"]}
    assert kinds == {"param", "main_grad", "param_after_step", "loss"}
