"""What `ttrace_synth` writes, held against numpy, h5py, torch and `ttrace`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from conformance.numpy_merge import merged
from support.synth import adamw_step, synth, synth_binary, tensors
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace

from ttrace_torch.init import normal, philox

DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
PLACEMENTS = [
    {},
    {"tp": {"shard": 1}},
    {"tp": {"shard": 0}, "dp": {"shard": 1}},
    {"tp": {"partial": "sum"}, "dp": {"shard": 0}},
    {"dp": {"only": 1}},
]


@pytest.mark.parametrize("placements", PLACEMENTS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shards_put_together_by_numpy_are_the_whole(
    tmp_path: Path, dtype: str, placements: dict
) -> None:
    made = tensors(3, [37, 24], dtype=dtype, placements=placements)
    whole = merged(synth(tmp_path / "ref.h5", made, "--noise", "2"))
    run = synth(tmp_path / "run", made, "--noise", "2", mesh={"dp": 2, "tp": 3})
    together = merged(run)
    assert set(whole) == set(together)
    assert len(whole) == 3
    for key, values in whole.items():
        np.testing.assert_array_equal(together[key], values)
        assert 0.7 < values.std() < 1.3
    assert run_ttrace("lint", run).stdout.startswith("CLEAN  3 tensors over 6 ranks")
    other = merged(synth(tmp_path / "other.h5", made, "--noise", "2", "--seed", "1"))
    assert not any(np.array_equal(other[key], values) for key, values in whole.items())


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_cut_as_everything_is(tmp_path: Path, dtype: str) -> None:
    zigzag = {"tp": {"shard": 0, "order": "zigzag"}}
    made = tensors(1, [40, 9], name="ids", kind="buffer", dtype=dtype, placements=zigzag)
    ref = synth(tmp_path / "ref.h5", made)
    run = synth(tmp_path / "run", made, mesh={"tp": 2})
    assert run_ttrace("compare", ref, run).returncode == MATCH
    (values,) = merged(ref).values()
    assert set(np.unique(values)) <= set(range(2 if dtype == "bool" else 100))
    assert len(np.unique(values)) > (1 if dtype == "bool" else 90)


def test_values_are_those_of_the_other_implementation(tmp_path: Path) -> None:
    """Of schemas/consistent-v1.md."""
    flags = ["--seed", "9", "--noise", "3", "--noise-seed", "4"]
    ref = synth(tmp_path / "ref.h5", tensors(1, [5, 7], name="w"), *flags)
    path = "/step_000000/output/w"

    def words(purpose: str, seed: int) -> np.ndarray:
        key = philox.fnv1a(f"{purpose}\0{seed}\0{path}".encode())
        return philox.words_at(key, np.arange(9, dtype=np.uint64)).reshape(-1)[:35]

    values = normal.normal(words("synth", 9), 0, 1).astype(np.float64)
    noise = normal.uniform(words("synth_noise", 4)).astype(np.float64)
    expected = (values * (1 + 3 * 2.0**-23 * noise)).astype(np.float32)
    with h5py.File(ref) as file:
        np.testing.assert_array_equal(file[path][()].ravel(), expected)


def test_storage_changes_no_value(tmp_path: Path) -> None:
    made = tensors(1, [700, 901], placements={"tp": {"shard": 1}})  # several chunks
    ref = synth(tmp_path / "ref.h5", made)
    run = synth(tmp_path / "run", made, "--deflate", "4", mesh={"tp": 2})
    assert run_ttrace("compare", ref, run).returncode == MATCH
    with h5py.File(run / "rank_00001.h5") as file:
        dataset = file["step_000000/output/tensor.0"]
        assert dataset.compression == "gzip"
        assert dataset.id.get_num_chunks() == 2


def test_a_sparse_trace_takes_no_disk(tmp_path: Path) -> None:
    made = tensors(1, [1024, 1024, 256], placements={"tp": {"shard": 0}})  # 1 GiB
    run = synth(tmp_path / "run", made, "--sparse", mesh={"tp": 2})
    for file in run.glob("rank_*.h5"):
        assert file.stat().st_size > 2**29
        assert file.stat().st_blocks * 512 < 2**20
    assert run_ttrace("lint", run).stdout.startswith("CLEAN")


def test_layouts_of_every_kind_match_their_reference(tmp_path: Path) -> None:
    axes = {"": {"pp": 2, "dp": 2, "tp": 4}, "moe": {"ep": 4, "edp": 4}}
    meshes = {
        name: {"axes": [{"name": axis, "size": size} for axis, size in sizes.items()]}
        for name, sizes in axes.items()
    }
    meshes["moe"]["ranks"] = list(range(15, -1, -1))
    qkv = {"tp": {"shard": 0, "segments": [16, 8, 8], "repeat": 3}}
    flat = {"tp": {"shard": 1, "segments": [8, 4]}, "dp": {"flat": [[0, 11], [11, 30]]}}
    boxes = {
        "tp": {"boxes": [[[0, 0], [3, 3]], [[0, 3], [3, 3]], [[3, 0], [3, 6]], [[0, 0], [0, 0]]]}
    }
    mean = {"dp": {"partial": "mean"}, "tp": {"partial": "sum"}}
    strided = {"dp": {"shard": 0, "stride": 4}, "tp": {"shard": 0}}
    groups = [
        tensors(6, [96, 40], name="qkv.{i}", dtype="bfloat16", placements=qkv, held_at={"pp": [1]}),
        tensors(1, [37, 5], name="strided", dtype="float64", placements=strided),
        tensors(1, [33, 5], name="mean", kind="main_grad", dtype="bfloat16", placements=mean),
        tensors(1, [], name="max", kind="scalar", placements={"dp": {"partial": "max"}}),
        tensors(1, [10, 12], name="flat", dtype="bfloat16", scale=0.25, placements=flat),
        tensors(1, [6, 6], name="boxes", dtype="float8_e4m3fn", placements=boxes),
        tensors(8, [16, 9], name="expert.{i}", mesh="moe", placements={"edp": {"shard": 1}}),
    ]
    made = {"meshes": meshes, "tensors": sum(groups, [])}
    run = synth(tmp_path / "run", made)
    done = run_ttrace("compare", synth(tmp_path / "ref.h5", made), run)
    assert done.returncode == MATCH, done.stdout
    assert run_ttrace("lint", run).stdout.startswith("CLEAN  19 tensors over 16 ranks")


def test_what_is_there_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "ref.h5").write_text("dear")
    (tmp_path / "run").mkdir()
    for name in ("ref.h5", "run"):
        with pytest.raises(subprocess.CalledProcessError):
            synth(tmp_path / name, tensors(1, [4]))
    assert (tmp_path / "ref.h5").read_text() == "dear"
    assert list((tmp_path / "run").iterdir()) == []
    assert synth_binary().name == "ttrace_synth"


STEP = adamw_step(tensors(2, [48, 20], placements={"tp": {"shard": 1}}))


def test_a_step_of_adamw_is_that_of_torch(tmp_path: Path) -> None:
    trace = synth(tmp_path / "ref.h5", STEP, "--seed", "3")

    def values(kind: str, name: str) -> torch.Tensor:
        with h5py.File(trace) as file:
            return torch.from_numpy(file[f"step_000000/{kind}/{name}"][()])

    for name in ("tensor.0", "tensor.1"):
        param = torch.nn.Parameter(values("param", name))
        param.grad = values("main_grad", name)
        adamw = torch.optim.AdamW([param], lr=1e-3, weight_decay=0.01)
        adamw.state[param] = {
            "step": torch.tensor(9.0),
            "exp_avg": values("optimizer_state", f"{name}.exp_avg"),
            "exp_avg_sq": values("optimizer_state", f"{name}.exp_avg_sq"),
        }
        adamw.step()
        after = values("param_after_step", name)
        torch.testing.assert_close(after, param.data, rtol=3e-7, atol=1e-9)
        assert not torch.equal(after, values("param", name))


def test_a_replay_finds_every_update_right_and_a_scaled_one_wrong(tmp_path: Path) -> None:
    ref = synth(tmp_path / "ref.h5", STEP)
    noise = synth(tmp_path / "noise.h5", STEP, "--noise", "1", "--noise-seed", "2")
    healthy = synth(tmp_path / "healthy", STEP, "--noise", "1", mesh={"tp": 2})
    fault = ["scaled=1.001@param_after_step/tensor.1"]
    faulty = synth(tmp_path / "faulty", STEP, "--noise", "1", mesh={"tp": 2}, faults=fault)
    for run, code, wrong in ((healthy, MATCH, []), (faulty, DIVERGED, ["tensor.1"])):
        report = tmp_path / f"{run.name}.json"
        done = run_ttrace("compare", ref, run, "--noise", noise, "--json", report)
        assert done.returncode == code, done.stdout
        results = json.loads(report.read_text(encoding="utf-8"))["results"]
        updates = [one for one in results if one["key"]["kind"] == "param_after_step"]
        assert [one["replay"]["optimizer"] for one in updates] == ["adamw", "adamw"]
        assert [one["key"]["name"] for one in updates if one["outcome"] == "diverged"] == wrong
