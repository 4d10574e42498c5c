"""What the manifest says of the run: its id, and what was told to be recorded."""

from __future__ import annotations

import json
import multiprocessing
import re
import shutil

import h5py
import pytest
import torch
from small_models import TiedGPT, seeded, train_step
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.capture.selection import KINDS
from ttrace_torch.union import write_manifest


def run_of(path, **options):
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with tt.trace(model, optimizer, out=path, **options) as tracer:
        for step in range(3):
            train_step(model, tracer, optimizer, step=step)
    trace = Trace(path)
    assert trace.manifest["schema"] == "ttrace.manifest/2"
    return trace.manifest["run"]


def test_all_kinds_of_the_steps_that_were_recorded(tmp_path):
    run = run_of(tmp_path / "run.h5", steps="0,2")
    assert run["recorded"] == {"kinds": list(KINDS), "steps": [0, 2]}
    assert "unfinished" not in run


def test_a_selection_is_told(tmp_path):
    options = {"kinds": ["loss", "output"], "modules": ["layers.*", "norm"]}
    recorded = run_of(tmp_path / "run.h5", **options)["recorded"]
    kinds = ["output", "loss", "index"]
    assert recorded == {"kinds": kinds, "modules": ["layers.*", "norm"], "steps": [0, 1, 2]}


def test_every_run_has_another_id(tmp_path):
    ids = {run_of(tmp_path / "run.h5", steps=0)["id"] for _ in range(3)}
    assert len(ids) == 3
    assert run_of(tmp_path / "run.h5", steps=0, run={"id": "job 7"})["id"] == "job 7"


def test_ranks_without_a_store_say_that_their_ids_differ(tmp_path, monkeypatch):
    model = seeded(TiedGPT)
    monkeypatch.setenv("TTRACE_DONE", str(tmp_path / "done"))
    for rank in range(2):
        with tt.trace(model, out=tmp_path, mesh=tt.Mesh({"dp": 2}), rank=rank) as tracer:
            train_step(model, tracer)
    ids = []
    for rank in range(2):
        with h5py.File(tmp_path / f"rank_{rank:05d}.h5") as file:
            ids.append(file.attrs["ttrace_run"].decode())
        assert re.fullmatch(f"[0-9a-f]{{32}}@{rank}", ids[rank])
    assert ids[0][:32] != ids[1][:32]
    assert Trace(tmp_path).manifest["run"]["id"] == ids[0]
    assert json.loads((tmp_path / "done").read_text())["run"] == ids[0]  # what rank 1 told
    monkeypatch.delenv("TTRACE_DONE")
    assert "@" not in run_of(tmp_path / "run.h5", steps=0)["id"]


def test_a_file_of_an_earlier_run_leaves_no_manifest(tmp_path, capfd):
    model = seeded(TiedGPT)

    def trace_rank(out, rank, identity):
        options = {"mesh": tt.Mesh({"dp": 2}), "rank": rank, "run": {"id": identity}}
        with tt.trace(model, out=out, **options) as tracer:
            train_step(model, tracer)

    trace_rank(tmp_path / "monday", 1, "monday")
    trace_rank(tmp_path / "tuesday", 1, "tuesday")
    shutil.copy(tmp_path / "monday" / "rank_00001.h5", tmp_path / "tuesday")
    trace_rank(tmp_path / "tuesday", 0, "tuesday")
    assert "rank(s) [1] are of another run" in capfd.readouterr().err
    assert not (tmp_path / "tuesday" / "manifest.json").exists()
    with pytest.raises(tt.TraceError, match="'monday' and not 'tuesday'"):
        write_manifest(tmp_path / "tuesday")
    with h5py.File(tmp_path / "tuesday" / "rank_00001.h5", "r+") as file:
        file.attrs["ttrace_run"] = "tuesday"
    with pytest.raises(tt.TraceError, match="it names two runs, 'tuesday' and 'monday'"):
        write_manifest(tmp_path / "tuesday")


def test_a_rank_that_was_told_not_to_record_says_so(tmp_path):
    model = seeded(TiedGPT)
    for rank in range(2):
        options = {"mesh": tt.Mesh({"dp": 2}), "rank": rank, "ranks": 0}
        with tt.trace(model, out=tmp_path, **options) as tracer:
            train_step(model, tracer)
    with h5py.File(tmp_path / "rank_00001.h5") as file:
        part = json.loads(file["manifest"][()])
    assert part["run"]["recorded"] == {"kinds": [], "steps": [0]}
    manifest = Trace(tmp_path).manifest
    assert manifest["run"]["recorded"] == {"kinds": list(KINDS), "steps": [0]}
    assert not any("absent_on" in entry for entry in manifest["tensors"])


def trained(rank, folder, skips, queue):
    """One rank of two, which shard the model's heads; `skips` leaves the optimizer out."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mesh = tt.Mesh({"tp": 2})
    layout = tt.Layout("(model)", params={"weight": {"tp": tt.Shard(0)}})
    out = folder / "run"
    for _ in range(2):
        tracer = tt.trace(model, optimizer, out=out, mesh=mesh, rank=rank, layouts=[layout])
        with tracer, tracer.step(0):
            model(torch.ones(2, 4)).sum().backward()
            if not (skips and rank == 1):
                optimizer.step()
        torch.distributed.barrier()
        if rank == 0:
            queue.put(json.loads((out / "manifest.json").read_text()))
        torch.distributed.barrier()


@pytest.mark.parametrize("skips", [False, True])
def test_ranks_share_an_id_and_a_skipped_update_leaves_a_manifest(tmp_path, skips):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    ranks = [context.Process(target=trained, args=(r, tmp_path, skips, queue)) for r in range(2)]
    for rank in ranks:
        rank.start()
    first, second = queue.get(timeout=300), queue.get(timeout=300)
    for rank in ranks:
        rank.join(timeout=300)
        assert rank.exitcode == 0
    assert first["run"]["id"] != second["run"]["id"]
    ids = set()
    for rank in range(2):
        with h5py.File(tmp_path / "run" / f"rank_{rank:05d}.h5") as file:
            ids.add(json.loads(file["manifest"][()])["run"]["id"])
            ids.add(file.attrs["ttrace_run"].decode())
    assert ids == {second["run"]["id"]}
    absent = {e["kind"]: e["absent_on"] for e in second["tensors"] if "absent_on" in e}
    assert absent == ({"main_grad": [1], "param_after_step": [1]} if skips else {})
