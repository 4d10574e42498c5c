"""Planted faults are found, by name, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Run
from .small_traces import check_answer, check_diverged, check_match, check_refused

SPEC = {
    "schema": "ttrace.synth/1",
    "seed": 5,
    "meshes": {"": {"axes": [{"name": "dp", "size": 2}, {"name": "tp", "size": 2}]}},
    "tensors": [
        {"name": "layers.{i}", "count": 4, "kind": "output", "microbatch": 1, "dtype": "bfloat16",
         "shape": [24, 20], "placements": {"tp": {"shard": 1}, "dp": {"shard": 0}}},
        {"name": "fc.weight", "kind": "param_grad", "dtype": "float32", "shape": [30, 8],
         "placements": {"dp": {"partial": "sum"}, "tp": {"shard": 0}}},
        {"name": "fc.bias", "kind": "main_grad", "dtype": "float32", "shape": [30]},
    ],
}  # fmt: skip

LAYER = "layers.2 · output · step 0 · mb 1"
WEIGHT = "fc.weight · param_grad · step 0"
BIAS = "fc.bias · main_grad · step 0"

FAULTS = {
    "scaled=1.5@layers.2": LAYER,
    "shards_swapped@layers.2": LAYER,
    "row_zeroed@layers.2": LAYER,
    "row_zeroed=0@output/layers.2": LAYER,
    "stale@layers.2": LAYER,
    "nan@layers.2": LAYER,
    "key_missing@layers.2": LAYER,
    "part_dropped@fc.weight": WEIGHT,
    "scaled=1.001@fc.weight": WEIGHT,
    "rounded_to_bf16@fc.weight": WEIGHT,
    "nan@fc.weight": WEIGHT,
    "stale@fc.bias": BIAS,
    "rounded_to_bf16@main_grad/fc.bias": BIAS,
}


@pytest.fixture(scope="module")
def folder(ttrace: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the spec and the reference."""
    made = tmp_path_factory.mktemp("synth")
    (made / "spec.json").write_text(json.dumps(SPEC))
    done = ttrace("synth", "-o", made / "ref.h5", "--spec", made / "spec.json")
    check_answer(done, 0, "WROTE  6 tensors (")
    return made


def make(ttrace: Run, folder: Path, run: Path, *flags: str) -> None:
    done = ttrace("synth", "-o", run, "--spec", folder / "spec.json", *flags)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("noise", ["0", "1"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_is(
    ttrace: Run, folder: Path, tmp_path: Path, fault: str, noise: str
) -> None:
    make(ttrace, folder, tmp_path / "run", "--fault", fault, "--noise", noise)
    done = ttrace("compare", folder / "ref.h5", tmp_path / "run")
    check_diverged(done, FAULTS[fault])
    assert "(1 finding, 0 tensors downstream)" in done.stdout, done.stdout


def test_a_missing_rank_is_inconclusive(ttrace: Run, folder: Path, tmp_path: Path) -> None:
    make(ttrace, folder, tmp_path / "run", "--fault", "rank_missing=3")
    done = ttrace("compare", folder / "ref.h5", tmp_path / "run")
    check_answer(done, 3, "INCONCLUSIVE  nothing diverged, but 1 of 4 ranks")


def test_several_faults_are_all_told(ttrace: Run, folder: Path, tmp_path: Path) -> None:
    faults = ["scaled=3@layers.1", "nan@fc.bias"]
    flags = [word for fault in faults for word in ("--fault", fault)]
    done = ttrace("synth", "-o", tmp_path / "run", "--spec", folder / "spec.json", *flags)
    assert done.stdout.splitlines()[1:] == [f"  fault  {fault}" for fault in faults]
    done = ttrace("compare", folder / "ref.h5", tmp_path / "run")
    assert "(2 findings" in done.stdout, done.stdout


def test_noise_runs_of_the_reference_judge_a_noisy_run(
    ttrace: Run, folder: Path, tmp_path: Path
) -> None:
    noise = []
    for seed in ("11", "12", "13"):
        file = tmp_path / f"noise{seed}.h5"
        make(ttrace, folder, file, "--noise", "1", "--noise-seed", seed)
        noise += ["--noise", file]
    make(ttrace, folder, tmp_path / "run", "--noise", "1")
    check_match(
        ttrace("compare", folder / "ref.h5", tmp_path / "run", *noise),
        6,
        *["has no parameters"] * 3,
    )
    make(ttrace, folder, tmp_path / "bad", "--noise", "1", "--fault", "scaled=1.00001@fc.bias")
    done = ttrace("compare", folder / "ref.h5", tmp_path / "bad", *noise)
    check_diverged(done, BIAS)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("scaled@layers.9", ["layers.9", "there is no such tensor", "layers.0"]),
        ("scale@layers.1", ["there is no such fault", "scaled"]),
        ("part_dropped@layers.1", ["no sum or mean"]),
        ("shards_swapped@fc.bias", ["no two shards"]),
        ("rank_missing=4", ["no such rank"]),
        ("row_zeroed=24@layers.1", ["24 rows"]),
        ("scaled=@layers.1", ["expected a number"]),
        ("scaled=1e999@layers.1", ["expected a number"]),
        ("\x1b[2J", ["\\x1b"]),
    ],
)
def test_a_fault_that_cannot_be_is_refused(
    ttrace: Run, folder: Path, tmp_path: Path, fault: str, words: list[str]
) -> None:
    flags = ["--spec", folder / "spec.json", "--fault", fault]
    done = ttrace("synth", "-o", tmp_path / "run", *flags)
    check_refused(done, "--fault", *words)
    assert list(tmp_path.iterdir()) == []
