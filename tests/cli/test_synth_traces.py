"""What `ttrace synth` writes, held against numpy, h5py and HDF5's tools; what it refuses."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from conformance.numpy_merge import merged
from support.ttrace_cli import ttrace_binary

from ttrace_torch.init import normal, philox

from .conftest import Run
from .small_traces import check_answer, check_match, check_refused

DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
PLACES = ["tp=shard:1", "tp=shard:0,dp=shard:1", "tp=partial,dp=shard:0", "dp=only:1", ""]


def synth(ttrace: Run, output: Path, *flags: str) -> Path:
    done = ttrace("synth", "-o", output, *flags)
    check_answer(done, 0, "WROTE  ")
    return output


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shards_put_together_by_numpy_are_the_whole(
    ttrace: Run, tmp_path: Path, dtype: str, place: str
) -> None:
    flags = ["--tensors", "3", "--shape", "37x24", "--dtype", dtype, "--noise", "2"]
    ref = synth(ttrace, tmp_path / "ref.h5", *flags)
    places = ["--place", place] if place else []
    run = synth(ttrace, tmp_path / "run", *flags, "--mesh", "dp=2,tp=3", *places)
    whole, together = merged(ref), merged(run)
    assert set(whole) == set(together)
    assert len(whole) == 3
    for key, values in whole.items():
        np.testing.assert_array_equal(together[key], values)
        assert 0.7 < values.std() < 1.3
    check_answer(ttrace("lint", run), 0, "CLEAN  3 tensors over 6 ranks")
    check_answer(ttrace("lint", ref), 0, "CLEAN  3 tensors over 1 rank")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_cut_as_everything_is(ttrace: Run, tmp_path: Path, dtype: str) -> None:
    flags = ["--shape", "40x9", "--dtype", dtype, "--kind", "buffer", "--name", "ids"]
    ref = synth(ttrace, tmp_path / "ref.h5", *flags)
    run = synth(ttrace, tmp_path / "run", *flags, "--mesh", "tp=2", "--place", "tp=zigzag:0")
    check_match(ttrace("compare", ref, run), 1)
    with h5py.File(ref) as file:
        values = file["step_000000/buffer/ids"][()]
    assert set(np.unique(values)) <= set(range(2 if dtype == "bool" else 100))
    assert len(np.unique(values)) > (1 if dtype == "bool" else 90)


def test_values_are_those_of_the_page(ttrace: Run, tmp_path: Path) -> None:
    """schemas/synth-v1.md, by the other implementation of consistent-v1.md."""
    flags = ["--shape", "5x7", "--name", "w", "--seed", "9", "--noise", "3", "--noise-seed", "4"]
    ref = synth(ttrace, tmp_path / "ref.h5", *flags)
    path = "/step_000000/param/w"

    def words(purpose: str, seed: int) -> np.ndarray:
        key = philox.fnv1a(f"{purpose}\0{seed}\0{path}".encode())
        return philox.words_at(key, np.arange(9, dtype=np.uint64)).reshape(-1)[:35]

    values = normal.normal(words("synth", 9), 0, 1).astype(np.float64)
    noise = normal.uniform(words("synth_noise", 4)).astype(np.float64)
    expected = (values * (1 + 3 * 2.0**-23 * noise)).astype(np.float32)
    with h5py.File(ref) as file:
        np.testing.assert_array_equal(file[path][()].ravel(), expected)


STORAGE = {
    "deflate": ["--deflate", "4"],
    "chunk": ["--chunk", "7x5"],
    "all": ["--chunk", "16x16", "--deflate", "1", "--shuffle"],
}


@pytest.mark.parametrize("name", STORAGE)
def test_storage_changes_no_value(ttrace: Run, tmp_path: Path, name: str) -> None:
    storage = STORAGE[name]
    flags = ["--shape", "70x33", "--dtype", "bfloat16"]
    cut = ["--mesh", "tp=3", "--place", "tp=shard:1"]
    ref = synth(ttrace, tmp_path / "ref.h5", *flags)
    run = synth(ttrace, tmp_path / "run", *flags, *cut, *storage)
    check_match(ttrace("compare", ref, run), 1)
    with h5py.File(run / "rank_00001.h5") as file:
        dataset = file["step_000000/param/tensor.0"]
        assert dataset.chunks is not None
        assert (dataset.compression == "gzip") == ("--deflate" in storage)
        assert dataset.shuffle == ("--shuffle" in storage)
        assert dataset.id.get_num_chunks() * np.prod(dataset.chunks) >= dataset.size


def test_hdf5s_own_tools_read_it(ttrace: Run, tmp_path: Path) -> None:
    run = synth(ttrace, tmp_path / "run", "--shape", "4", "--dtype", "bfloat16")
    dumped = subprocess.run(
        ["h5dump", "-d", "/step_000000/param/tensor.0", run / "rank_00000.h5"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    line = next(line for line in dumped.splitlines() if "(0):" in line)  # attributes follow
    told = [float(word) for word in line.split(":")[1].split(",") if word.strip()]
    np.testing.assert_allclose(told, next(iter(merged(run).values())), rtol=1e-5)


def test_a_sparse_trace_takes_no_disk_and_compares(ttrace: Run, tmp_path: Path) -> None:
    flags = ["--shape", "1024x1024x256", "--sparse"]  # 1 GiB
    run = synth(ttrace, tmp_path / "run", *flags, "--mesh", "tp=2", "--place", "tp=shard:0")
    for file in run.glob("rank_*.h5"):
        assert file.stat().st_size > 2**29
        assert file.stat().st_blocks * 512 < 2**20
    check_answer(ttrace("lint", run), 0, "CLEAN")


def test_a_manifest_alone_for_thousands_of_ranks(ttrace: Run, tmp_path: Path) -> None:
    flags = ["--tensors", "500", "--shape", "4096x64", "--manifest-only"]
    cut = ["--mesh", "pp=4,dp=128,tp=8", "--place", "pp=stages,tp=shard:1,dp=flat"]
    run = synth(ttrace, tmp_path / "run", *flags, *cut)
    assert [path.name for path in run.iterdir()] == ["manifest.json"]
    done = ttrace("lint", "--manifest-only", run)
    check_answer(done, 0, "CLEAN  500 tensors over 4096 ranks")


def test_the_same_command_says_the_same(ttrace: Run, tmp_path: Path) -> None:
    flags = ["--tensors", "2", "--shape", "500x600", "--noise", "1"]
    one = synth(ttrace, tmp_path / "one.h5", *flags, "--threads", "1")
    two = synth(ttrace, tmp_path / "two.h5", *flags, "--threads", "2")
    for key, values in merged(one).items():
        np.testing.assert_array_equal(merged(two)[key], values)
    other = synth(ttrace, tmp_path / "other.h5", *flags, "--seed", "1")
    assert not np.array_equal(*(next(iter(merged(path).values())) for path in (one, other)))


def test_what_is_there_is_never_replaced(ttrace: Run, tmp_path: Path) -> None:
    (tmp_path / "ref.h5").write_text("dear")
    (tmp_path / "run").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for name in ("ref.h5", "run", "run/", "dangling"):
        output = f"{tmp_path}/{name}"
        told = output.rstrip("/")
        check_refused(ttrace("synth", "-o", output, "--shape", "4"), told, "is there already")
    assert (tmp_path / "ref.h5").read_text() == "dear"
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shape", "99999999999x99999999999"], ["overflows 64 bits"]),
        (["--shape", "4294967296x1024", "--tensors", "16777216", "--mesh", "dp=65536"],
         ["overflows 64 bits"]),
        (["--shape", "1099511627776"], ["the disk has room for", "--sparse"]),
        (["--shape", "4x"], ["4x", "4096x1024"]),
        (["--shape", "4", "--tensors", "0"], ["--tensors"]),
        (["--shape", "4", "--dtype", "bf16"], ["--dtype bf16"]),
        (["--shape", "4", "--kind", "weight"], ["--kind weight"]),
        (["--shape", "4", "--name", "a/b"], ["a name with"]),
        (["--shape", "4", "--name", "a", "--tensors", "2"], ["{i}"]),
        (["--shape", "4", "--mesh", "tp=0"], ["tp=0"]),
        (["--shape", "4", "--place", "tp=shard:0"], ["no such axis"]),
        (["--shape", "4", "--mesh", "tp=2", "--place", "tp=shard:1"], ["no dimension 1"]),
        (["--shape", "4", "--mesh", "tp=2", "--place", "tp=cut"], ["tp=cut", "shard:DIM"]),
        (["--shape", "10", "--mesh", "tp=2,dp=3", "--place", "tp=zigzag:0,dp=flat"],
         ["placements/dp", "held by nobody"]),
        (["--shape", "4", "--sparse", "--deflate", "1"], ["cannot be filtered"]),
        (["--shape", "4x4", "--chunk", "4"], ["a chunk of 1 dimensions"]),
        (["--shape", "4", "--deflate", "10"], ["--deflate"]),
        (["--shape", "4", "--noise", "-1"], ["--noise"]),
        (["--shape", "4", "--noise", "1", "--relative-noise", "1"], ["--noise"]),
        (["--spec", "/nonexistent.json"], ["/nonexistent.json", "No such file"]),
        (["--spec", "/dev/null", "--shape", "4"], ["--spec"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    ttrace: Run, tmp_path: Path, flags: list[str], words: list[str]
) -> None:
    check_refused(ttrace("synth", "-o", tmp_path / "run", *flags), *words)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_refused(ttrace: Run, tmp_path: Path) -> None:
    for name in ("absent/ref.h5", "absent/run"):
        done = ttrace("synth", "-o", tmp_path / name, "--shape", "4")
        check_refused(done, tmp_path / name, "cannot be created")


@pytest.mark.parametrize("limit", [100, 3000, 100_000])
@pytest.mark.parametrize("flags", [[], ["--deflate", "1"], ["--chunk", "10x10"], ["--sparse"]])
@pytest.mark.parametrize("name", ["ref.h5", "run"])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, name: str, flags: list[str], limit: int
) -> None:
    def fill_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [ttrace_binary(), "synth", "-o", tmp_path / name, "--shape", "300x400",
         "--mesh", "tp=2", *flags],
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=fill_disk,
    )  # fmt: skip
    check_refused(done, tmp_path / name, "is the disk full")
    assert list(tmp_path.iterdir()) == []


def test_a_spec_of_everything_matches_its_reference(ttrace: Run, tmp_path: Path) -> None:
    spec = {
        "schema": "ttrace.synth/1",
        "meshes": {
            "": {"axes": [{"name": n, "size": s} for n, s in (("pp", 2), ("dp", 2), ("tp", 4))]},
            "moe": {"axes": [{"name": "ep", "size": 4}, {"name": "edp", "size": 4}],
                    "ranks": list(range(15, -1, -1))},
        },
        "tensors": [
            {"name": "layers.{i}.qkv", "count": 6, "kind": "param", "dtype": "bfloat16",
             "shape": [96, 40], "stages": "pp",
             "placements": {"tp": {"shard": 0, "segments": [16, 8, 8], "repeat": 3}}},
            {"name": "strided", "kind": "param", "dtype": "float64", "shape": [37, 5],
             "placements": {"dp": {"shard": 0, "stride": 4}, "tp": {"shard": 0}}},
            {"name": "mean", "kind": "param_grad", "dtype": "bfloat16", "shape": [33, 5],
             "placements": {"dp": {"partial": "mean"}, "tp": {"partial": "sum"}}},
            {"name": "max", "kind": "scalar", "dtype": "float32", "shape": [],
             "placements": {"dp": {"partial": "max"}}},
            {"name": "flat", "kind": "main_grad", "dtype": "bfloat16", "shape": [10, 12],
             "scale": 0.25, "placements": {"tp": {"shard": 1, "segments": [8, 4]},
                                           "dp": {"flat": [[0, 11], [11, 30]]}}},
            {"name": "boxes", "kind": "param", "dtype": "float8_e4m3fn", "shape": [6, 6],
             "placements": {"tp": {"boxes": [[[0, 0], [3, 3]], [[0, 3], [3, 3]],
                                             [[3, 0], [3, 6]], [[0, 0], [0, 0]]]}}},
            {"name": "rows", "kind": "index", "dtype": "int32", "shape": [50],
             "placements": {"tp": {"shard": 0, "sizes": [20, 5, 0, 25]}}},
            {"name": "tokens", "kind": "output", "dtype": "float32", "shape": [50, 8],
             "placements": {"tp": {"rows": {"dim": 0, "index": "rows"}}}},
            {"name": "expert.{i}", "count": 8, "kind": "param", "dtype": "float8_e5m2",
             "shape": [16, 9], "mesh": "moe", "stages": "ep", "chunk": [4, 2], "deflate": 4,
             "placements": {"edp": {"shard": 1}}},
            {"name": "empty", "kind": "output", "dtype": "float32", "shape": [0, 9],
             "placements": {"tp": {"shard": 1}}},
        ],
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    ref = synth(ttrace, tmp_path / "ref.h5", "--spec", tmp_path / "spec.json")
    run = synth(ttrace, tmp_path / "run", "--spec", tmp_path / "spec.json")
    check_answer(ttrace("lint", run), 0, "CLEAN  22 tensors over 16 ranks")
    check_match(ttrace("compare", ref, run), 21)
    (run / "manifest.json").rename(tmp_path / "manifest.json")
    check_answer(ttrace("lint", "--write", run), 0, "CLEAN  22 tensors")
    check_match(ttrace("compare", ref, run), 21)
    shutil.rmtree(run)
