"""Matrices as pytest runs them: healthy layouts, planted faults, the cache."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path

import h5py
import pytest
from torch import nn

from matrix import small
from ttrace_torch.matrix.processes import run_ranks, start_method
from ttrace_torch.matrix.reference import cached_reference
from ttrace_torch.testing import MatrixError, assert_equivalent

LAYOUTS = ["ddp2", "fsdp4", "fsdp2+tp2", "tp2+sp", "pp2:1f1b"]


pytestmark = pytest.mark.usefixtures("program")


def given(cache, **changed):
    """The arguments of a healthy matrix."""
    return {
        "build": small.Model,
        "batches": small.batches,
        "layouts": LAYOUTS,
        "loss": small.loss_of,
        "parallelize": small.parallelize,
        "pipeline": small.Stage,
        "cache": cache,
        "limit": 120,
        "noise": 1,
        **changed,
    }


@pytest.fixture(scope="module")
def healthy(cache):
    return assert_equivalent(**given(cache))


def failed(cache, **changed):
    """The table of a matrix that is not fine."""
    with pytest.raises(AssertionError) as raised:
        assert_equivalent(**given(cache, **changed))
    return str(raised.value).strip()


def test_every_layout_agrees_and_the_first_line_says_so(healthy):
    first, head, *lines = str(healthy).splitlines()
    assert first.startswith("MATCH  5 layouts agree with one process and hold by themselves; the")
    assert head.split() == ["layout", "compare", "audit", "worst", "seconds", "headline"]
    assert [line.split()[:3] for line in lines[:5]] == [[w, "match", "holds"] for w in LAYOUTS]
    assert healthy.exit_code == 0
    # Tensor-parallel sums have another order: that they use nothing would mean that none was made.
    assert 0 < healthy.rows[2].compared.used < 1


def test_traces_of_layouts_that_match_are_removed(healthy):
    assert [row.kept for row in healthy.rows] == [None] * 5
    assert not list(Path(healthy.notes[0][1].rsplit(": ")[-1]).parent.glob("noise*"))


def test_a_reference_is_made_once_and_its_date_is_told(healthy, cache):
    again = assert_equivalent(**given(cache, layouts=["ddp2"]))
    (name, text), (_, before) = again.notes[0], healthy.notes[0]
    assert name == "reference" and "made now" in before and "from the cache" in text
    assert text.split(",")[0] == before.split(",")[0]
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"optimizer": lambda parameters: small.torch.optim.SGD(parameters, lr=0.1)},
        {"loss": lambda logits, labels: 2 * small.loss_of(logits, labels)},
    ],
    ids=["weights and data", "optimizer", "loss"],
)
def test_another_job_has_another_reference(healthy, cache, changed):
    again = assert_equivalent(**given(cache, layouts=["ddp1"], **changed))
    assert "made now" in again.notes[0][1]


def changes_values(entry):
    with h5py.File(entry / "reference.h5", "r+") as file:
        file["step_000000/param/head.weight"][...] *= 2


def changes_tolerance(entry):
    text = (entry / "tolerance.json").read_text()
    changed = text.replace("1", "9", 1)
    assert changed != text
    (entry / "tolerance.json").write_text(changed)


def changes_facts(entry):
    said = json.loads((entry / "facts.json").read_text())
    said["of"]["seeds"] = [7, 7]
    (entry / "facts.json").write_text(json.dumps(said))


def forgets_files(entry):
    said = json.loads((entry / "facts.json").read_text())
    (entry / "facts.json").write_text(json.dumps({**said, "files": {}}))


@pytest.mark.parametrize(
    "damage",
    [
        None,
        changes_values,
        changes_tolerance,
        changes_facts,
        forgets_files,
        lambda entry: (entry / "reference.h5").write_bytes(b""),
        lambda entry: (entry / "tolerance.json").unlink(),
        lambda entry: (entry / "facts.json").write_text("{"),
    ],
)
def test_a_damaged_reference_is_not_taken(healthy, tmp_path, damage):
    made = Path(healthy.notes[0][1].rsplit(": ")[-1]).parent
    shutil.copytree(made, tmp_path / made.name)
    if damage is not None:
        damage(tmp_path / made.name)
    taken = cached_reference(tmp_path, made.name)
    assert (taken is None) == (damage is not None)


def test_a_damaged_reference_is_made_again(healthy, tmp_path):
    kept, made = tmp_path / "cache", Path(healthy.notes[0][1].rsplit(": ")[-1]).parent
    entry = kept / made.name
    shutil.copytree(made, entry)
    changes_values(entry)
    again = assert_equivalent(**given(kept, layouts=["ddp1"]))
    assert "made now" in again.notes[0][1]
    assert [path.name for path in kept.iterdir()] == [entry.name]


def test_norms_that_are_not_summed_are_found_in_that_layout_alone(healthy, cache):
    table = failed(cache, parallelize=small.forgets_norms, layouts=["tp2", "tp2+sp"])
    first = table.splitlines()[0]
    assert first.startswith("DIVERGED  tp2+sp (1 of 2 layouts): the gradients of")
    assert "never summed over tp (2 ranks)" in first
    kept = Path(table.split("tp2+sp: kept in ")[1].splitlines()[0])
    assert json.loads((kept / "compare.json").read_text())["verdict"] == "diverged"
    assert (kept / "compare.html").stat().st_size > 0 and (kept / "run").is_dir()


def test_a_stage_that_loses_a_layer_is_found(healthy, cache):
    table = failed(cache, pipeline=small.loses_a_layer, layouts=["pp2:gpipe"])
    assert table.startswith("DIVERGED  pp2:gpipe (1 of 1 layout): ")
    assert "layers.1" in table.splitlines()[0]


def test_a_rank_that_computes_something_else_is_found(healthy, cache):
    table = failed(cache, build=small.OfOwnRank, layouts=["fsdp2"])
    assert table.startswith("DIVERGED  fsdp2 (1 of 1 layout): ")
    assert "101/100 times what they should be" in table.splitlines()[0]
    assert table.splitlines()[2].split()[:3] == ["fsdp2", "diverged", "broken"]


def test_a_folder_that_is_named_keeps_everything(healthy, cache, tmp_path):
    found = assert_equivalent(**given(cache, layouts=["ddp2"], out=tmp_path / "out"))
    (row,) = found.rows
    assert row.kept == tmp_path / "out" / "ddp2"
    assert {"run", "compare.txt", "audit.json", "rank_0.log"} <= {
        p.name for p in row.kept.iterdir()
    }


def test_a_build_that_no_seed_makes_twice_is_told_with_the_parameter(tmp_path):
    with pytest.raises(MatrixError, match=r"build: two calls made different parameters, head\.we"):
        assert_equivalent(**given(tmp_path, build=small.differs))


def test_a_build_that_differs_on_a_rank_is_told_with_the_parameter(healthy, cache):
    table = failed(cache, build=small.of_rank, layouts=["ddp2"])
    assert table.startswith("FAILED  ddp2 (1 of 1 layout): build: two calls made different param")
    assert "norm.bias, in the reference and in rank 1 of ddp2" in table


def test_a_rank_that_hangs_is_ended_and_told(healthy, cache):
    begun = time.monotonic()
    table = failed(cache, build=small.Hangs, layouts=["ddp2"], limit=6)
    assert time.monotonic() - begun < 30
    first = table.splitlines()[0]
    assert "all 2 ranks had not ended after 6 s and were ended" in first
    log = Path(first.rsplit("where it stood: ")[1])
    assert log.exists() and "File" in log.read_text()


def test_a_rank_that_dies_is_told(healthy, cache):
    first = failed(cache, build=small.Dies, layouts=["ddp2"]).splitlines()[0]
    assert "rank 1 died by SIGKILL before it had finished; the other ranks were ended" in first


def test_a_rank_that_raises_is_told_with_its_place(healthy, cache):
    first = failed(cache, build=small.Raises, layouts=["ddp2"]).splitlines()[0]
    assert "rank 1 raised ValueError: no such expert at " in first
    assert f"{small.__file__}:" in first


def test_where_gpus_are_ranks_are_new_processes(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("ttrace_torch.matrix.processes.start_method", lambda: "spawn")
    where = {"grouped": True, "backend": "gloo", "threads": 1}
    assert run_ranks(small.where_it_runs, (small.Model,), 1, tmp_path, 60, **where) == [[0, 1, 4]]
    with pytest.raises(MatrixError, match="must be functions at the top of a module"):
        assert_equivalent(**given(cache, layouts=["ddp1"], loss=lambda x, y: x.mean()))


def test_nccl_needs_a_gpu_for_each_rank(cache, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(MatrixError, match=r"backend='nccl': the 2 rank\(s\) of 'fsdp2' need a GPU"):
        assert_equivalent(**given(cache, layouts=["ddp1", "fsdp2"], backend="nccl"))


def test_a_process_with_threads_of_autograd_is_not_forked():
    """torch 2.15 begins them on the CPU too, if a model is compiled first."""
    here, done = threading.Event(), threading.Event()

    def named():
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("pt_autograd_0")
        here.set()
        done.wait()

    thread = threading.Thread(target=named)
    before = start_method()
    thread.start()
    here.wait()
    during = start_method()
    done.set()
    thread.join()
    # The system may show a thread a while after it was joined.
    until = time.monotonic() + 10
    while start_method() == "spawn" and time.monotonic() < until:
        time.sleep(0.01)
    assert (before, during, start_method()) == ("fork", "spawn", "fork")


def test_a_layout_that_cannot_be_made_fails_and_names_the_argument(healthy, cache):
    layouts = ["tp2", "pp2:1f1b", "ddp2"]
    table = failed(cache, parallelize=None, pipeline=None, layouts=layouts)
    assert table.startswith("FAILED  tp2, pp2:1f1b (2 of 3 layouts): parallelize: 'tp2' has tensor")
    assert "pipeline: 'pp2:1f1b' has stages, and nothing says how to cut a Model; give" in table
    assert table.splitlines()[4].split()[:3] == ["ddp2", "match", "holds"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"layouts": ["dpp2"]}, "layouts: 'dpp2' is no layout: 'dpp2' is none of ddpN"),
        ({"layouts": ["ddp2", "pp2:1f1f"]}, "the schedule of pp is one of gpipe, 1f1b.*mean 1f1b"),
        ({"layouts": ["ddp64"]}, "'ddp64' needs 64 processes, and this machine of .* at most"),
        ({"layouts": ["ddp3"]}, "batches: 4 .* do not divide by the 3 data-parallel ranks of 'dd"),
        ({"layouts": ["ddp2", "ddp2"]}, "layouts: 'ddp2' is there twice"),
        ({"layouts": []}, "layouts: give at least one"),
        ({"layouts": ["sp"]}, "sp cuts what tp leaves whole; write tp2"),
        ({"layouts": ["ddp"]}, "ddp needs a number of ranks, such as ddp2"),
        ({"layouts": ["ddp2+tp2"]}, "takes no part of a model that tp has cut; write fsdp2"),
        ({"batches": []}, "batches is empty"),
        ({"batches": {"ids": 1}}, "batches is a dict; give a list"),
        ({"build": 3}, "build is a int; give a function"),
        ({"limit": 0}, "limit=0: give a number of seconds"),
        ({"steps": 0}, "steps=0: give a number from 1"),
        ({"backend": "mpi"}, "backend='mpi' is neither"),
        ({"out": "/dev/null/out"}, "out='/dev/null/out': Not a directory"),
        ({"build": dict}, "build returned a dict; it returns a torch module"),
        ({"batches": [nn.Identity()]}, "with loss= a micro-batch is a pair"),
        (
            {"loss": None, "batches": [small.torch.zeros(1, 2).long()]},
            "returned a Tensor without a",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_arguments_that_cannot_be_used_are_named(tmp_path, changed, text):
    layouts = changed.pop("layouts", ["ddp1"])
    with pytest.raises(MatrixError, match=text):
        assert_equivalent(**given(tmp_path, layouts=layouts, **changed))
