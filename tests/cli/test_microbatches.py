"""A reference with one big batch against runs that deal it out, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.reports import findings, read_report
from support.text_report import evidence
from support.ttrace_cli import DIVERGED, MATCH

from .conftest import Run
from .rank_files import Held, add_to, entry, mesh, write_run, write_single
from .small_traces import SWAPPED, check_answer, check_match

SAMPLES, FEATURES = 4, 3
MODULES = [
    {"name": "fc1"},
    {"name": "fc2", "inputs": ["fc1"], "params": ["fc2.weight"]},
    {"name": "loss", "computed_from": ["fc2"]},
]


def values() -> dict[str, np.ndarray]:
    """Of a batch, sample by sample; gradients and losses of each sample on its own."""
    random = np.random.default_rng(0)
    return {
        "fc1": random.standard_normal((SAMPLES, FEATURES)),
        "fc2": random.standard_normal((SAMPLES, FEATURES)),
        "fc2.weight": random.standard_normal((SAMPLES, FEATURES)),
        "loss": random.standard_normal(SAMPLES),
    }


KINDS = {"fc1": "output", "fc2": "output", "fc2.weight": "grad_output", "loss": "loss"}


def wholes() -> list[tuple[dict, np.ndarray]]:
    """One batch; trace-v2.md, "Micro-batches together"."""
    numbers = list(range(SAMPLES))
    tensors = []
    for name, array in values().items():
        if KINDS[name] == "output":
            how, array = {"shard": 0, "of": numbers}, array
        elif KINDS[name] == "loss":
            how, array = {"mean": numbers}, array.mean()
        else:
            how, array = {"sum": numbers}, array.sum(0)
        described = entry(name, array.shape, KINDS[name], dtype="float64", microbatches=how)
        tensors.append((described, np.asarray(array)))
    return tensors


def parts(held: str) -> list[tuple[dict, Held]]:
    """A micro-batch for each sample, on the ranks of a data-parallel axis of two."""
    tensors: list[tuple[dict, Held]] = []
    for number in range(SAMPLES):
        rank = number // 2
        for name, array in values().items():
            part = array[number : number + 1] if KINDS[name] == "output" else array[number]
            members: dict = {"microbatch": number, "dtype": "float64"}
            if held == "held_at":
                members["held_at"] = {"dp": [rank]}
            elif held == "only":
                members["placements"] = {"dp": {"only": rank}}
            ranks = (0, 1) if held == "everywhere" else (rank,)
            described = entry(name, part.shape, KINDS[name], **members)
            tensors.append((described, dict.fromkeys(ranks, part)))
    return tensors


def single(folder: Path, name: str, tensors: list[tuple[dict, np.ndarray]]) -> Path:
    return write_single(folder / name, tensors, modules=MODULES)


def run_of(folder: Path, tensors: list[tuple[dict, Held]]) -> Path:
    return write_run(folder / "run", {"": mesh(dp=2)}, 2, tensors)


def write_pair(folder: Path, held: str = "held_at") -> tuple[Path, Path]:
    return single(folder, "ref.h5", wholes()), run_of(folder, parts(held))


@pytest.mark.parametrize("held", ["everywhere", "held_at", "only"])
def test_one_big_batch_meets_many(ttrace: Run, tmp_path: Path, held: str) -> None:
    big, small = write_pair(tmp_path, held)
    check_answer(ttrace("lint", small), MATCH, "CLEAN  16 tensors over 2 ranks")
    check_match(ttrace("compare", big, small), 4)
    check_match(ttrace("compare", small, big), 4, SWAPPED)
    noise = ("--noise", perturbed(tmp_path))
    check_match(ttrace("compare", big, small, *noise), 4, "has no parameters")


def perturbed(folder: Path) -> Path:
    """A noise run that has the parts, where the reference has the whole."""
    noise = {"seed": 1, "epsilon": 2.0**-52, "at": "fc1"}
    tensors = []
    for described, held in parts("everywhere"):
        array = held[0] * (1 + 2.0**-52)
        tensors.append((described, array))
    return write_single(folder / "noise.h5", tensors, modules=MODULES, run={"noise": noise})


def test_a_batch_cut_over_data_parallel_ranks_meets_its_micro_batches(
    ttrace: Run, tmp_path: Path
) -> None:
    tensors: list[tuple[dict, Held]] = []
    for described, array in wholes():
        if described["kind"] == "output":
            described |= {"placements": {"dp": {"shard": 0}}}
            tensors.append((described, {0: array[:2], 1: array[2:]}))
        elif described["kind"] == "grad_output":
            described |= {"placements": {"dp": {"partial": "sum"}}}
            tensors.append((described, {0: array - 1, 1: np.ones_like(array)}))
        else:
            tensors.append((described, {0: array, 1: array}))
    run = run_of(tmp_path, tensors)
    whole_parts = [(described, held[0]) for described, held in parts("everywhere")]
    small = single(tmp_path, "small.h5", whole_parts)
    check_match(ttrace("compare", small, run), 4)
    check_match(ttrace("compare", single(tmp_path, "big.h5", wholes()), run), 4)
    add_to(run, 1, tensors[0][0], (1, 2), 1)
    done = ttrace("compare", small, run)
    check_answer(done, DIVERGED, "DIVERGED  ", first="fc1 · output · step 0")
    assert "|d| = 1 at [3, 2]" in done.stdout
    assert "(rank 1 at [1, 2])" in done.stdout


@pytest.mark.parametrize("name", ["fc1", "fc2"])
def test_a_wrong_micro_batch_is_found_with_its_rank(ttrace: Run, tmp_path: Path, name: str) -> None:
    big, run = write_pair(tmp_path)
    for wrong in ("fc1", "fc2", "loss"):
        if wrong >= name:  # the error goes on from where it began
            described = entry(wrong, (), KINDS[wrong], microbatch=3)
            add_to(run, 1, described, () if wrong == "loss" else (0, 1), 1)
    path = tmp_path / "report.json"
    done = ttrace("compare", big, run, "--json", path)
    check_answer(done, DIVERGED, "DIVERGED  ", first=f"{name} · output · step 0")
    report = read_report(path)
    [finding] = findings(report)
    assert finding["ranks"] == [1]
    lines = evidence(done.stdout)
    assert "on rank 1 (mb 3, [3:4, 0:3]); 1 of 4 shards differ" in lines["where"]
    assert lines["merged"].startswith("[4, 3] made of mb 0, mb 1, mb 2, mb 3; the first ")
    assert lines["largest"].startswith("|d| = 1 at [3, 1]: ")
    assert lines["largest"].endswith("(rank 1 at [0, 1])")
    assert report["counts"]["diverged"] == (3 if name == "fc1" else 2)


def test_a_lost_micro_batch_is_missing_and_named(ttrace: Run, tmp_path: Path) -> None:
    big = single(tmp_path, "ref.h5", wholes())
    kept = [(e, held) for e, held in parts("held_at") if (e["name"], e["microbatch"]) != ("fc2", 2)]
    run = run_of(tmp_path, kept)
    done = ttrace("compare", big, run)
    check_answer(done, DIVERGED, "DIVERGED  ", first="fc2 · output · step 0")
    assert "why      it is all of micro-batches 0, 1, 2, 3, " in done.stdout
    assert "and the other side lacks micro-batch 2" in " ".join(done.stdout.split())


def test_batches_of_other_micro_batches_cannot_be_compared(ttrace: Run, tmp_path: Path) -> None:
    big = single(tmp_path, "ref.h5", wholes())
    others = wholes()
    for described, _ in others:
        how = described["microbatches"]
        key = "of" if "of" in how else next(iter(how))
        described["microbatches"] = how | {key: [4, 5, 6, 7]}
    other = single(tmp_path, "other.h5", others)
    done = ttrace("compare", big, other)
    check_answer(done, 3, "INCONCLUSIVE")
    path = tmp_path / "report.json"
    ttrace("compare", big, other, "--json", path)
    results = json.loads(path.read_text())["results"]
    assert {result["outcome"] for result in results} == {"not_judged"}
    assert results[0]["reason"] == (
        "the reference is all of micro-batches 0, 1, 2, 3, "
        "the candidate all of micro-batches 4, 5, 6, 7"
    )


def test_parts_that_the_other_side_has_too_are_compared_with_both(
    ttrace: Run, tmp_path: Path
) -> None:
    part, held = parts("held_at")[0]
    own = {key: value for key, value in part.items() if key != "held_at"}
    big = single(tmp_path, "ref.h5", [*wholes(), (own, held[0])])
    run = run_of(tmp_path, parts("held_at"))
    check_match(ttrace("compare", big, run), 5)
    add_to(run, 0, part, (0, 0), 1)
    done = ttrace("compare", big, run, "--all")
    assert done.returncode == DIVERGED
    assert "5 tensors: 3 match, 2 diverged" in done.stdout


def test_a_merged_run_keeps_its_micro_batches(ttrace: Run, tmp_path: Path) -> None:
    big, run = write_pair(tmp_path)
    merged = tmp_path / "merged.h5"
    check_answer(ttrace("merge", run, "-o", merged), MATCH, "MERGED  16 tensors")
    check_match(ttrace("compare", big, merged), 4)
    again = tmp_path / "again.h5"
    check_answer(ttrace("merge", big, "-o", again), MATCH, "MERGED  4 tensors")
    check_match(ttrace("compare", again, run), 4)
