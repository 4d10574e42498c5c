"""Switches by the environment, which steps and ranks are recorded, and the inactive tracer."""

from __future__ import annotations

import dataclasses
import inspect
import sys

import numpy as np
import pytest
import torch
from process_groups import run_ranks
from small_models import TiedGPT, batch, cross_entropy, seeded, train_step
from support.python_runs import run_python
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.base.int_ranges import int_ranges
from ttrace_torch.config import TraceConfig
from ttrace_torch.inactive import Inactive
from ttrace_torch.write.background import parse_memory


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("OUT", "STEPS", "RANKS", "KINDS", "MODULES", "NOISE", "COMPRESS", "MEMORY"):
        monkeypatch.delenv(f"TTRACE_{name}", raising=False)


def run(**options):
    """Trains as a script does that knows nothing of the environment; gives the last loss."""
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with tt.trace(model, optimizer, **options) as tracer:
        for step in range(4):
            (loss,) = train_step(model, tracer, optimizer, step=step)
    return loss


def steps_of(path):
    return sorted({entry["step"] for entry in Trace(path).entries.values()})


def test_without_a_place_to_write_nothing_happens(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTRACE_STEPS", "nonsense")
    # Not even the model is looked at.
    tracer = tt.trace(None, object(), mesh=None, layouts=[tt.Layout("no such module")])
    assert not tracer.active and tracer.failed is None and tracer.skipped == []
    loss = torch.ones((), requires_grad=True)
    with tracer as same, tracer.step(3), tracer.step(3), tracer.microbatch("any"):
        assert same is tracer
        assert tracer.loss(loss) is loss
        for result in (
            tracer.grad_norm(1.0, clip_norm=1.0),
            tracer.scalar("a", 1),
            tracer.index("rows", torch.ones(2, 2)),
            tracer.main_grads(),
            tracer.params_after_step(),
            tracer.before_update(),
            tracer.after_update(),
        ):
            assert result is None
    with tracer.step(), pytest.raises(ZeroDivisionError), tracer:
        raise ZeroDivisionError
    tracer.close()
    tracer.close()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_an_inactive_tracer_answers_every_call():
    public = [n for n, _ in inspect.getmembers(tt.Tracer) if not n.startswith("_")]
    tracer = Inactive()
    values = {"number": 0, "name": "n", "value": 1.0, "norm": 1.0, "rows": torch.ones(1).int()}
    for name in public:
        member = getattr(tracer, name)
        if callable(member):
            needed = inspect.signature(member).parameters.values()
            given = {p.name: values.get(p.name) for p in needed if p.default is p.empty}
            member(**given)


def test_an_inactive_tracer_changes_nothing():
    assert run() == run()


def test_the_first_step_alone_where_no_steps_are_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    run()
    assert steps_of(tmp_path / "run.h5") == [0]
    said, last = capfd.readouterr().err.splitlines()
    assert "records step 0 alone" in said and "TTRACE_STEPS" in said
    assert last.startswith("ttrace: step 0, ")


def test_every_step_where_the_script_names_the_place(tmp_path, capfd):
    run(out=tmp_path / "run.h5")
    assert steps_of(tmp_path / "run.h5") == [0, 1, 2, 3]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("variable", "argument", "expected"),
    [
        ("1,3", None, [1, 3]),
        ("2-", None, [2, 3]),
        ("0, 2-3", None, [0, 2, 3]),
        ("1", "0-1", [0, 1]),
        ("1", [2], [2]),
        (None, 3, [3]),
        (None, range(0, 4, 2), [0, 2]),
    ],
)
def test_steps(tmp_path, monkeypatch, variable, argument, expected):
    if variable is not None:
        monkeypatch.setenv("TTRACE_STEPS", variable)
    run(out=tmp_path / "run.h5", steps=argument)
    assert steps_of(tmp_path / "run.h5") == expected


def test_steps_that_are_not_selected_have_no_hooks(tmp_path):
    model = nn.Linear(2, 2)
    with tt.trace(model, out=tmp_path / "run.h5", steps="1") as tracer:
        for step in (0, 0, 1, 5):
            with tracer.step(step):
                assert bool(model._forward_hooks) == (step == 1)
                model(torch.ones(1, 2))
    assert steps_of(tmp_path / "run.h5") == [1]


def test_step_counts_by_itself(tmp_path):
    model = nn.Linear(2, 2)
    with tt.trace(model, out=tmp_path / "run.h5", steps="1,7-8") as tracer:
        for number in (None, None, 7, None):
            with tracer.step(number):
                model(torch.ones(1, 2))
    assert steps_of(tmp_path / "run.h5") == [1, 7, 8]


def test_kinds_modules_and_compression(tmp_path, monkeypatch):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "run.h5"))
    monkeypatch.setenv("TTRACE_KINDS", "output, main_grad")
    monkeypatch.setenv("TTRACE_MODULES", "layers.0.attn,norm")
    monkeypatch.setenv("TTRACE_COMPRESS", "3")
    monkeypatch.setenv("TTRACE_MEMORY", "1KiB")
    run()
    trace = Trace(tmp_path / "run.h5")
    trace.check_complete()
    assert trace.names("output") == ["layers.0.attn", "norm"]
    assert {e["kind"] for e in trace.entries.values()} == {"output", "main_grad"}
    run(kinds=["loss"], modules=["*"])
    assert {e["kind"] for e in Trace(tmp_path / "run.h5").entries.values()} == {"loss"}
    # An argument may be written as the variable is.
    run(kinds="output, loss", modules="norm")
    assert Trace(tmp_path / "run.h5").names("output") == ["norm"]


def test_a_noise_run_needs_no_change_of_the_script(tmp_path, monkeypatch):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "variable.h5"))
    monkeypatch.setenv("TTRACE_NOISE", "7")
    monkeypatch.setenv("TTRACE_NOISE_AT", "layers.0")
    run()
    run(out=tmp_path / "argument.h5", perturb=tt.Perturb(7, at="layers.0"), steps=0)
    run(out=tmp_path / "other.h5", perturb=tt.Perturb(8), steps=0)
    traces = [Trace(tmp_path / f"{name}.h5") for name in ("variable", "argument", "other")]
    ids = [trace.manifest["run"].pop("id") for trace in traces]
    assert len(set(ids)) == 3
    assert traces[0].manifest == traces[1].manifest
    assert traces[0].manifest["run"]["noise"]["seed"] == 7
    assert traces[2].manifest["run"]["noise"]["seed"] == 8
    values = [trace.value("output", "(model)", microbatch=0) for trace in traces]
    np.testing.assert_array_equal(values[0], values[1])
    assert (values[0] != values[2]).any()


def test_a_configuration_is_frozen_and_arguments_win():
    given = TraceConfig(out="run", steps="3")
    found = given.with_environment({"TTRACE_STEPS": "4", "TTRACE_RANKS": "0", "TTRACE_PLAN": ""})
    assert (found.out, found.steps, found.ranks, found.plan) == ("run", "3", "0", None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.out = "elsewhere"


@pytest.mark.parametrize("steps", [[], [-1], ["0"], [True], "", [1.0]])
def test_bad_steps_are_refused(tmp_path, steps):
    with pytest.raises(tt.TraceError, match="steps="):
        run(out=tmp_path / "run.h5", steps=steps)


def test_numbers_and_sizes():
    assert int_ranges("8-10,1", "").listed() == [1, 8, 9, 10]
    assert 10**9 in int_ranges("5-", "") and 4 not in int_ranges("5-", "")
    sizes = {"17": 17, "2K": 2048, "1.5kB": 1500, "4 GiB": 4 << 30, "3mib": 3 << 20, "9B": 9}
    assert {text: parse_memory(text, "") for text in sizes} == sizes


def data_parallel_rank(rank, folder, ranks):
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    mesh = tt.Mesh({"dp": 2})
    noise = tt.Perturb(3)
    with tt.trace(model, optimizer, folder, mesh, ranks=ranks, perturb=noise) as tracer:
        with tracer.step(0), tracer.microbatch(rank):
            ids, targets = batch(seed=rank)
            tracer.loss(cross_entropy(model(ids), targets)).backward()
            for parameter in model.parameters():
                torch.distributed.all_reduce(parameter.grad)
            optimizer.step()


def test_ranks_that_do_not_write_leave_a_whole_trace(tmp_path):
    run_ranks(2, data_parallel_rank, tmp_path / "both", None)
    run_ranks(2, data_parallel_rank, tmp_path / "one", "1")
    both, one = Trace(tmp_path / "both"), Trace(tmp_path / "one")
    one.check_complete()
    # What rank 0 alone held is not there, the rest says where it was recorded.
    kept = {key for key in both.entries if both.entries[key].get("held_at") != {"dp": [0]}}
    assert set(one.entries) == kept < set(both.entries)
    assert all(entry["held_at"] == {"dp": [1]} for entry in one.entries.values())
    assert {e["microbatch"] for e in one.entries.values() if "microbatch" in e} == {1}
    # The rank that does not write is perturbed like the others.
    np.testing.assert_array_equal(
        one.value("main_grad", "norm.weight"), both.value("main_grad", "norm.weight")
    )


def test_ranks_cannot_cut_through_a_tensor(tmp_path):
    mesh = tt.Mesh({"dp": 2, "tp": 2})
    layouts = [tt.Layout("(model)", output={"tp": tt.Shard(-1)})]
    model = nn.Linear(2, 2)

    def forward(name, ranks):
        options = {"mesh": mesh, "layouts": layouts, "rank": 1, "ranks": ranks}
        with tt.trace(model, out=tmp_path / name, **options) as tracer, tracer.step(0):
            model(torch.ones(1, 2))
        return tracer.incomplete

    assert forward("whole", [0, 1]) == []
    assert "over axis tp, of which rank 0 holds a part" in forward("part", [1])[0]
    with pytest.raises(tt.TraceError, match="are no block of"):
        forward("diagonal", [0, 3])


SCRIPT = """
import sys, torch, ttrace_torch as tt
model = torch.nn.Linear(2, 2)
tracer = tt.trace(model)
for step in range(3):
    with tracer.step():
        model(torch.ones(1, 2))
        {body}
"""


@pytest.mark.parametrize(
    ("body", "status", "steps"),
    [
        ("pass", 0, [0, 1]),
        ("if step == 1: sys.exit(3)", 3, [0]),
        ("if step == 1: raise ValueError('mine')", 1, [0]),
        ("if step == 0: raise ValueError('mine')", 1, None),
    ],
)
def test_a_tracer_nobody_closed_keeps_the_finished_steps(tmp_path, body, status, steps):
    environment = {"TTRACE_OUT": str(tmp_path / "run"), "TTRACE_STEPS": "0-1"}
    path = {"PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"}
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(body=body))
    done = run_python([script], timeout=600, environment={**environment, **path})
    assert done.returncode == status, done.stderr
    if steps is None:
        assert list((tmp_path / "run").iterdir()) == []
    else:
        assert steps_of(tmp_path / "run") == steps
        assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
            "manifest.json",
            "rank_00000.h5",
        ]
