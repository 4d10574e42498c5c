"""Parts of many ranks made into one manifest."""

from __future__ import annotations

import copy
import errno
import json
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from small_models import TiedGPT, seeded, train_step
from support.python_runs import run_python
from torch import nn
from trace_reading import SCHEMA, Trace

import ttrace_torch as tt
from ttrace_torch.union import main, merge_manifests, write_manifest
from ttrace_torch.write.merge import save_manifest

MESH = {"axes": [{"name": "pp", "size": 2}, {"name": "tp", "size": 2}]}


def entry(name="a", **members):
    base = {"name": name, "kind": "output", "step": 0, "microbatch": 0}
    return {**base, "dtype": "float32", "shape": [4], **members}


def parts(*tensors, mesh=MESH, **members):
    """Parts of ranks 0, 1, ... that hold the given lists of entries."""
    return {
        rank: {
            "schema": "ttrace.manifest/2",
            "meshes": {"": mesh},
            "tensors": copy.deepcopy(entries),
            **{member: values[rank] for member, values in members.items()},
        }
        for rank, entries in enumerate(tensors)
    }


def test_an_entry_held_everywhere_has_no_held_at():
    whole = merge_manifests(parts(*[[entry(order=rank)] for rank in (3, 2, 5, 4)]))
    assert whole["tensors"] == [entry(order=2)]


@pytest.mark.parametrize(
    "holding, held_at",
    [((0, 1), {"pp": [0]}), ((1, 3), {"tp": [1]}), ((2,), {"pp": [1], "tp": [0]})],
)
def test_an_entry_of_some_ranks_says_which(holding, held_at):
    whole = merge_manifests(parts(*[[entry()] if rank in holding else [] for rank in range(4)]))
    assert whole["tensors"] == [entry(held_at=held_at)]


def test_a_partial_over_an_axis_reduces_over_those_that_hold_it():
    mesh = {"axes": [{"name": "pp", "size": 4}]}
    tied = entry(placements={"pp": {"partial": "sum"}})
    whole = merge_manifests(parts([tied], [], [], [tied], mesh=mesh))
    assert whole["tensors"][0]["held_at"] == {"pp": [0, 3]}


def test_only_needs_no_held_at():
    only = entry(placements={"pp": {"only": 1}})
    assert merge_manifests(parts([], [], [only], [only]))["tensors"] == [only]


def test_ranks_that_are_no_product_are_an_error():
    with pytest.raises(tt.TraceError, match=r"a · output · .* ranks \[0, 3\] .* no product"):
        merge_manifests(parts([entry()], [], [], [entry()]))


def test_a_missing_shard_is_an_error():
    cut = entry(placements={"tp": {"shard": 0}})
    with pytest.raises(tt.TraceError, match=r"cut over axis tp, but only its coordinates \[0\]"):
        merge_manifests(parts([cut], [], [cut], []))


STAGE = {"axes": [{"name": "fsdp", "size": 2}], "ranks": [2, 3]}


def told(united, **others):
    """The parts of ranks that were told to record outputs of step 0."""
    for rank, part in united.items():
        recorded = {"kinds": ["output", "index"], "steps": [0]}
        recorded.update(others.get(f"rank{rank}", {}))
        part["run"] = {"id": "a run", "recorded": recorded}
    return united


def test_a_rank_that_should_have_recorded_its_part_is_named():
    cut = entry(placements={"tp": {"shard": 0}})
    whole = merge_manifests(told(parts([cut], [], [cut], [])))
    assert whole["tensors"] == [{**cut, "absent_on": [1, 3]}]
    whole = merge_manifests(told(parts([entry(order=3)], [], [], [entry(order=5)])))
    assert whole["tensors"] == [entry(order=3, absent_on=[1, 2])]


@pytest.mark.parametrize("facts", [{"kinds": []}, {"kinds": ["param", "index"]}, {"steps": [1]}])
def test_a_rank_that_was_not_to_record_its_part_is_not_named(facts):
    whole = merge_manifests(told(parts([entry()], [], [entry()], [entry()]), rank1=facts))
    assert whole["tensors"] == [entry()]


def test_a_rank_that_did_not_close_its_trace_is_not_named():
    united = told(parts([entry()], [], [entry()], [entry()]))
    united[1]["run"]["unfinished"] = [1]
    whole = merge_manifests(united)
    assert whole["tensors"] == [entry()]
    assert whole["run"]["unfinished"] == [1]


def test_a_rank_whose_part_is_empty_is_not_named():
    for cut in ({"flat": [[0, 4], [4, 4]]}, {"shard": 0, "sizes": [4, 0]}):
        here = entry(placements={"tp": cut})
        assert merge_manifests(told(parts([here], [], [here], [])))["tensors"] == [here]
    few = entry(shape=[1], placements={"tp": {"shard": 0}})
    assert merge_manifests(told(parts([few], [], [few], [])))["tensors"] == [few]


def test_a_rank_may_have_no_rows_at_all():
    rows = entry(placements={"tp": {"rows": {"dim": 0, "index": "r"}}})
    assert merge_manifests(told(parts([rows], [], [rows], [])))["tensors"] == [rows]


def test_what_the_run_recorded_is_what_all_ranks_that_record_did():
    facts = {
        "rank0": {"kinds": [], "steps": [0, 1]},
        "rank1": {"kinds": ["param", "output", "index"], "modules": ["a.*"], "steps": [0, 1]},
        "rank2": {"modules": ["b", "a.*"]},
        "rank3": {"modules": ["b"]},
    }
    run = merge_manifests(told(parts([], [], [], []), **facts))["run"]
    assert run["id"] == "a run"
    assert run["recorded"] == {"kinds": ["output", "index"], "modules": ["a.*", "b"], "steps": [0]}
    del facts["rank2"]
    run = merge_manifests(told(parts([], [], [], []), **facts))["run"]
    assert "modules" not in run["recorded"]
    run = merge_manifests(
        told(parts([], [], [], []), **{f"rank{r}": {"kinds": []} for r in range(4)})
    )["run"]
    assert run["recorded"] == {"kinds": [], "steps": [0]}


def test_positions_may_differ_between_ranks():
    whole = merge_manifests(
        told(parts(*[[entry("a[cos]", position=1 + rank)] for rank in range(4)]))
    )
    assert whole["tensors"] == [entry("a[cos]", position=1)]


def test_parts_of_two_versions_are_an_error():
    united = parts([], [], [], [])
    united[2]["schema"] = "ttrace.manifest/3"
    with pytest.raises(tt.TraceError, match=r"rank 0 has ttrace.manifest/2, rank\(s\) \[2\]"):
        merge_manifests(united)


def with_meshes(united, **meshes):
    for part in united.values():
        part["meshes"].update(copy.deepcopy(meshes))
    return united


def test_a_mesh_of_its_own_is_in_the_parts_of_those_that_met_it():
    cut = entry(mesh="stage", placements={"fsdp": {"shard": 0}})
    united = parts([], [], [cut], [cut])
    for rank in (2, 3):
        united[rank]["meshes"] = {"": MESH, "stage": STAGE}
    whole = merge_manifests(united)
    assert whole["meshes"] == {"": MESH, "stage": STAGE}
    # All ranks of its mesh hold it; those outside hold nothing of it.
    assert whole["tensors"] == [cut]


def test_where_an_entry_is_held_is_told_on_its_own_mesh():
    turned = {"axes": [{"name": "x", "size": 2}, {"name": "y", "size": 2}], "ranks": [0, 2, 1, 3]}
    here = entry(mesh="turned", placements={"x": {"shard": 0}})
    whole = merge_manifests(with_meshes(parts([here], [here], [], []), turned=turned))
    # Ranks 0 and 1 are pp 0 on the default mesh, y 0 on this one.
    assert whole["tensors"] == [{**here, "held_at": {"y": [0]}}]


@pytest.mark.parametrize(
    "placement",
    [
        {"shard": 0, "order": "zigzag"},
        {"shard": 0, "stride": 2},
        {"flat": [[0, 2], [2, 4]]},
        {"boxes": [[[0], [2]], [[2], [2]]]},
        {"rows": {"dim": 0, "index": "rows"}},
    ],
    ids=str,
)
def test_every_way_of_cutting_needs_all_its_coordinates(placement):
    cut = entry(mesh="stage", placements={"fsdp": placement})
    with pytest.raises(tt.TraceError, match=r"cut over axis fsdp, .* \[1\] of 2 .*ranks \[3\]"):
        merge_manifests(with_meshes(parts([], [], [], [cut]), stage=STAGE))


def test_a_rank_outside_the_mesh_is_an_error():
    with pytest.raises(tt.TraceError, match=r"a · output .* ranks \[1\], which are outside"):
        merge_manifests(with_meshes(parts([], [entry(mesh="stage")], [], []), stage=STAGE))


def test_two_meshes_of_one_name_are_an_error():
    united = with_meshes(parts([], [], [], []), stage=STAGE)
    united[3]["meshes"]["stage"] = {**STAGE, "ranks": [3, 2]}
    with pytest.raises(tt.TraceError, match="rank 3 says the mesh 'stage'"):
        merge_manifests(united)


def test_ranks_that_disagree_on_micro_batches_are_an_error():
    one, other = [entry(microbatch=None, microbatches={"sum": [n]}) for n in (0, 1)]
    with pytest.raises(tt.TraceError, match="say microbatches is {'sum'.* say {'sum': "):
        merge_manifests(parts([one], [one], [other], [other]))


def test_contradictions_name_the_key_and_the_ranks():
    other = entry(shape=[5])
    with pytest.raises(tt.TraceError) as caught:
        merge_manifests(parts([entry()], [entry()], [other], [entry()]))
    text = str(caught.value)
    assert "a · output · step 0, micro-batch 0" in text
    assert "rank(s) [0, 1, 3] say shape is [4], rank(s) [2] say [5]" in text


def test_the_coarsest_precision_counts():
    narrow = entry(computed_in="bfloat16")
    whole = merge_manifests(parts([entry()], [entry()], [narrow], [narrow]))
    assert whole["tensors"] == [narrow]


def test_meshes_of_two_runs_are_an_error():
    mixed = parts([entry()], [entry()])
    mixed[1]["meshes"] = {"": {"axes": [{"name": "tp", "size": 8}]}}
    with pytest.raises(tt.TraceError, match="two runs"):
        merge_manifests(mixed)


def test_modules_and_optimizer_groups_are_united():
    def group(*params, **facts):
        return {"step": 0, "type": "sgd", "lr": 0.1, **facts, "params": list(params)}

    rest = {"weight_decay": 0.0}
    optimizer = [
        [group("a"), group("a.bias", **rest)],
        [group("a"), group("a.bias", **rest)],
        [group("b")],
        [group("b")],
    ]
    modules = [
        [{"name": "(model)", "inputs": []}, {"name": "a", "inputs": []}],
        [{"name": "(model)", "inputs": []}, {"name": "a", "inputs": []}],
        [{"name": "(model)", "inputs": ["a"]}, {"name": "b", "inputs": ["a"]}],
        [],
    ]
    whole = merge_manifests(parts([], [], [], [], optimizer=optimizer, modules=modules))
    assert whole["optimizer"] == [group("a", "b"), group("a.bias", **rest)]
    assert [m["name"] for m in whole["modules"]] == ["(model)", "a", "b"]
    assert whole["modules"][0] == {"name": "(model)", "inputs": []}

    optimizer[3] = [group("b", lr=0.2)]
    with pytest.raises(tt.TraceError, match="b is in two parameter groups"):
        merge_manifests(parts([], [], [], [], optimizer=optimizer))


def write_rank(folder, rank):
    model = seeded(TiedGPT)
    run = {"id": "one"}
    with tt.trace(model, out=folder, mesh=tt.Mesh({"dp": 3}), rank=rank, run=run) as tracer:
        train_step(model, tracer)


def test_the_last_rank_to_finish_writes_the_manifest(tmp_path):
    for rank in (1, 0):
        write_rank(tmp_path, rank)
        assert not (tmp_path / "manifest.json").exists()
        with pytest.raises(tt.TraceError, match="files of .*2.* are missing"):
            write_manifest(tmp_path)
    write_rank(tmp_path, 2)
    first = (tmp_path / "manifest.json").read_bytes()
    Trace(tmp_path).check_complete()
    assert Trace(tmp_path).manifest["meshes"] == {"": {"axes": [{"name": "dp", "size": 3}]}}
    # A rank that starts again takes the manifest away, and gives the same one back.
    write_rank(tmp_path, 0)
    assert (tmp_path / "manifest.json").read_bytes() == first


def test_the_ranks_of_a_run_are_those_of_all_meshes(tmp_path):
    # The default mesh leaves out rank 1, which the other one has.
    options = {"mesh": tt.Mesh({"dp": 2}, [0, 2]), "meshes": {"all": tt.Mesh({"rank": 3})}}
    for rank in (0, 2):
        tt.trace(nn.Linear(1, 1), out=tmp_path, rank=rank, **options).close()
        assert not (tmp_path / "manifest.json").exists()
    with pytest.raises(tt.TraceError, match="of the 3 ranks .* files of \\[1\\] are missing"):
        write_manifest(tmp_path)


def test_ranks_that_race_write_the_same(tmp_path):
    for rank in range(3):
        write_rank(tmp_path, rank)
    expected = (tmp_path / "manifest.json").read_bytes()
    context = multiprocessing.get_context("fork")
    racers = [context.Process(target=write_manifest, args=(tmp_path,)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(timeout=300)
        assert racer.exitcode == 0
    assert (tmp_path / "manifest.json").read_bytes() == expected
    assert len(list(tmp_path.iterdir())) == 4


def test_of_ranks_that_race_one_is_the_first(tmp_path):
    whole = merge_manifests(parts([], [], [], []))
    together = threading.Barrier(8)

    def save():
        together.wait()
        return save_manifest(tmp_path, whole)

    for _ in range(20):
        (tmp_path / "manifest.json").unlink(missing_ok=True)
        with ThreadPoolExecutor(8) as racers:
            firsts = [racer.result() for racer in [racers.submit(save) for _ in range(8)]]
        assert sorted(firsts) == [False] * 7 + [True]
    assert list(tmp_path.iterdir()) == [tmp_path / "manifest.json"]


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    whole = merge_manifests(parts([], [], [], []))
    assert [save_manifest(tmp_path, whole) for _ in range(3)] == [True, False, False]
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_by_hand(tmp_path, capsys):
    for rank in range(3):
        write_rank(tmp_path, rank)
    expected = (tmp_path / "manifest.json").read_bytes()
    (tmp_path / "manifest.json").unlink()
    done = run_python(["-m", "ttrace_torch.union", tmp_path], timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "manifest.json")
    assert done.stderr == ""
    assert (tmp_path / "manifest.json").read_bytes() == expected

    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "no rank_*.h5" in capsys.readouterr().err
    (tmp_path / "rank_00001.h5").write_text("not HDF5")
    assert main([str(tmp_path)]) == 2
    assert "rank_00001.h5: no readable /manifest" in capsys.readouterr().err


def test_the_parts_of_ranks_on_several_machines_are_put_together(tmp_path, capsys):
    whole, parts_of_all = tmp_path / "whole", tmp_path / "parts"
    for rank in range(3):
        write_rank(whole, rank)
    for node, ranks in {"a": (0, 1), "b": (2,)}.items():
        (tmp_path / node).mkdir()
        for rank in ranks:
            (whole / f"rank_{rank:05d}.h5").rename(tmp_path / node / f"rank_{rank:05d}.h5")
    assert main([str(tmp_path / "a")]) == 2
    assert "files of [2] are missing" in capsys.readouterr().err
    assert main(["--parts", str(parts_of_all), str(tmp_path / "a")]) == 0
    assert main([str(parts_of_all)]) == 2
    assert "union --parts DIR RUN" in capsys.readouterr().err
    assert main(["--parts", str(parts_of_all), str(tmp_path / "b")]) == 0
    assert capsys.readouterr().out.strip() == str(parts_of_all / "rank_00002.json")
    assert main([str(parts_of_all)]) == 0
    manifest = (parts_of_all / "manifest.json").read_bytes()
    assert manifest == (whole / "manifest.json").read_bytes()

    assert main(["--parts", str(parts_of_all), str(tmp_path)]) == 2
    assert "no rank_*.h5" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["--parts", str(tmp_path / "file"), str(tmp_path / "a")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    alone = json.dumps({"meshes": {"": {"axes": [{"name": "dp", "size": 3}]}}})
    for wrong in ("no JSON", "[]", '{"meshes": []}', '{"meshes": {}}', alone, "[" * 200_000):
        for rank in range(3):
            (parts_of_all / f"rank_{rank:05d}.json").write_text(wrong)
        assert main([str(parts_of_all)]) == 2
        assert "rank_00000.json: " in capsys.readouterr().err


def test_each_rank_embeds_its_own_part(tmp_path):
    import h5py
    import jsonschema_rs

    for rank in range(3):
        write_rank(tmp_path, rank)
    with h5py.File(tmp_path / "rank_00001.h5") as file:
        part = json.loads(file["manifest"][()])
    jsonschema_rs.validate(SCHEMA, part)
    # Rank 0 says where it was recorded.
    whole = Trace(tmp_path).manifest
    del whole["run"]["extra"]
    assert part == whole


def test_nothing_is_left_of_an_empty_run(tmp_path):
    for rank in range(2):
        tt.trace(nn.Linear(1, 1), out=tmp_path, mesh=tt.Mesh({"dp": 2}), rank=rank).close()
    assert Trace(tmp_path).manifest["tensors"] == []
