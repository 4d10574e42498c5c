"""Planted faults are found, by name, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.synth import synth, tensors

from .conftest import Run
from .small_traces import check_answer, check_diverged, check_match

MESH = {"dp": 2, "tp": 2}
TENSORS = [
    *tensors(4, [24, 20], name="layers.{i}", dtype="bfloat16", microbatch=1,
             placements={"tp": {"shard": 1}, "dp": {"shard": 0}}),
    *tensors(1, [30, 8], name="fc.weight", kind="param_grad",
             placements={"dp": {"partial": "sum"}, "tp": {"shard": 0}}),
    *tensors(1, [30], name="fc.bias", kind="main_grad"),
]  # fmt: skip

LAYER = "layers.2 · output · step 0 · mb 1"
WEIGHT = "fc.weight · param_grad · step 0"
BIAS = "fc.bias · main_grad · step 0"

FAULTS = {
    "scaled=1.5@layers.2": LAYER,
    "shards_swapped@layers.2": LAYER,
    "row_zeroed@layers.2": LAYER,
    "row_zeroed=0@output/layers.2": LAYER,
    "shuffled@layers.2": LAYER,
    "nan@layers.2": LAYER,
    "key_missing@layers.2": LAYER,
    "part_dropped@fc.weight": WEIGHT,
    "scaled=1.001@fc.weight": WEIGHT,
    "rounded_to_bf16@fc.weight": WEIGHT,
    "nan@fc.weight": WEIGHT,
    "shuffled@fc.bias": BIAS,
    "rounded_to_bf16@main_grad/fc.bias": BIAS,
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synth(tmp_path_factory.mktemp("synth") / "ref.h5", TENSORS, "--seed", "5")


def make(run: Path, *flags: str, faults: tuple[str, ...] = ()) -> Path:
    return synth(run, TENSORS, "--seed", "5", *flags, mesh=MESH, faults=faults)


@pytest.mark.parametrize("noise", ["0", "1"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_is(
    ttrace: Run, reference: Path, tmp_path: Path, fault: str, noise: str
) -> None:
    run = make(tmp_path / "run", "--noise", noise, faults=(fault,))
    done = ttrace("compare", reference, run)
    check_diverged(done, FAULTS[fault])
    assert "(1 finding, 0 tensors downstream)" in done.stdout, done.stdout


def test_a_missing_rank_is_inconclusive(ttrace: Run, reference: Path, tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    (run / "rank_00003.h5").unlink()
    done = ttrace("compare", reference, run)
    check_answer(done, 3, "INCONCLUSIVE  nothing diverged, but 1 of 4 ranks")


def test_several_faults_are_all_told(ttrace: Run, reference: Path, tmp_path: Path) -> None:
    run = make(tmp_path / "run", faults=("scaled=3@layers.1", "nan@fc.bias"))
    done = ttrace("compare", reference, run)
    assert "(2 findings" in done.stdout, done.stdout


def test_noise_runs_of_the_reference_judge_a_noisy_run(
    ttrace: Run, reference: Path, tmp_path: Path
) -> None:
    noise: list[str | Path] = []
    for seed in ("11", "12", "13"):
        file = make(tmp_path / f"noise{seed}.h5", "--noise", "1", "--noise-seed", seed)
        noise += ["--noise", file]
    run = make(tmp_path / "run", "--noise", "1")
    check_match(ttrace("compare", reference, run, *noise), 6, *["has no parameters"] * 3)
    bad = make(tmp_path / "bad", "--noise", "1", faults=("scaled=1.00001@fc.bias",))
    check_diverged(ttrace("compare", reference, bad, *noise), BIAS)
