"""Random runs: what `ttrace lint --write` makes of their parts is what the collector would have."""

from __future__ import annotations

import copy
import json
import random
from itertools import product
from pathlib import Path

import h5py
import pytest
from support.ttrace_cli import DIVERGED, MATCH, UNUSABLE

from .conftest import Run
from .rank_parts import (
    RUNS,
    axes,
    canonical,
    copied,
    entry,
    manifest_of,
    part,
    rank_file,
    write_parts,
)
from .small_traces import check_answer, check_refused


def random_part_of(rng: random.Random, sizes: dict[str, int], number: int) -> tuple[dict, set[int]]:
    """An entry and the ranks that hold it: nearly always a product of coordinates."""
    placements: dict[str, object] = {}
    held = []
    for axis, size in sizes.items():
        choice = rng.choice(["copy", "copy", "shard", "partial", "sizes"])
        if choice == "shard":
            placements[axis] = {"shard": number % 2}
        elif choice == "sizes":
            placements[axis] = {"shard": 0, "sizes": [64 // size] * size}
        elif choice == "partial":
            placements[axis] = {"partial": "sum"}
        everywhere = "shard" in str(placements.get(axis)) or rng.random() < 0.4
        count = size if everywhere else rng.randint(1, size)
        held.append(sorted(rng.sample(range(size), count)))
    everywhere = list(product(*map(range, sizes.values())))
    ranks = {everywhere.index(where) for where in product(*held)}
    members: dict[str, object] = {"shape": [64, 64], "step": rng.randint(0, 1)}
    if placements:
        members["placements"] = placements
    if rng.random() < 0.5:
        members["microbatch"] = rng.randint(0, 2)
    if rng.random() < 0.2:
        members["scale"] = rng.choice([0.5, 4.0])
    if len(ranks) > 1 and rng.random() < 0.02:
        ranks.pop()
    return entry(rng.choice(["a", "b.é", "Z"]) + str(number), **members), ranks


def random_parts(rng: random.Random) -> dict[int, dict]:
    sizes = {name: rng.choice([1, 2, 3, 4]) for name in rng.sample(["dp", "pp", "tp"], 2)}
    world = 1
    for size in sizes.values():
        world *= size
    parts = {rank: part(meshes={"": axes(**sizes)}) for rank in range(world)}
    for number in range(rng.randint(1, 12)):
        tensor, ranks = random_part_of(rng, sizes, number)
        for rank in ranks:
            own = copy.deepcopy(tensor)
            if rng.random() < 0.7:
                own["order"] = rng.randint(0, 9)
            if rng.random() < 0.2:
                own["computed_in"] = rng.choice(["bfloat16", "float16", "float8_e5m2"])
            if rng.random() < 0.002:
                own["scale"] = 3.0
            parts[rank]["tensors"].append(own)
    for rank in range(world):
        rng.shuffle(parts[rank]["tensors"])
        parts[rank]["modules"] = [
            {"name": name, "inputs": rng.choice([[], ["m0"]])}
            for name in rng.sample(["m0", "m1", "m2"], rng.randint(0, 3))
        ]
        parts[rank]["optimizer"] = [
            {"step": step, "type": "sgd", "lr": 0.5 * group, "params": [f"p{group}.{rank % 2}"]}
            for step in (1, 0)
            for group in range(rng.randint(0, 2))
        ]
    return parts


@pytest.mark.parametrize("seed", range(60))
def test_it_is_what_the_collector_would_have_written(
    ttrace: Run, tmp_path: Path, seed: int
) -> None:
    from ttrace_torch.errors import TraceError
    from ttrace_torch.write.merge import merge_manifests

    parts = random_parts(random.Random(seed))
    try:
        expected = merge_manifests(copy.deepcopy(parts))
    except TraceError:
        expected = None
    run = write_parts(tmp_path / "run", parts)
    done = ttrace("lint", "--write", "--manifest-only", run)
    if expected is None:
        check_refused(done, f"{run}: ")
        return
    assert done.returncode != UNUSABLE, done.stderr
    assert canonical(manifest_of(run)) == canonical(expected)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_left_of_a_sound_run_is_sound(ttrace: Run, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"lost {seed}")
    parts = random_parts(rng)
    whole_run = write_parts(tmp_path / "whole", parts)
    whole = ttrace("lint", "--write", "--manifest-only", whole_run)
    kept = sorted(rng.sample(sorted(parts), rng.randint(1, len(parts))))
    run = write_parts(tmp_path / "run", {rank: parts[rank] for rank in kept})
    done = ttrace("lint", "--write", "--manifest-only", run)
    if whole.returncode == UNUSABLE:
        return  # its contradiction may be lost, or not
    check_answer(done, whole.returncode if len(kept) == len(parts) else DIVERGED, "")
    assert f"{len(kept)} of {len(parts)} rank" in done.stdout
    sizes = {axis["name"]: axis["size"] for axis in parts[0]["meshes"][""]["axes"]}
    for tensor in manifest_of(run)["tensors"]:
        held = [tensor.get("held_at", {}).get(axis, range(size)) for axis, size in sizes.items()]
        everywhere = list(product(*map(range, sizes.values())))
        holding = {everywhere.index(where) for where in product(*held)}
        recorded = {
            rank for rank in kept for e in parts[rank]["tensors"] if e["name"] == tensor["name"]
        }
        assert holding & set(kept) == recorded


@pytest.mark.parametrize("name", RUNS)
def test_it_is_what_the_collector_wrote(ttrace: Run, tmp_path: Path, name: str) -> None:
    from ttrace_torch.write.merge import merge_manifests

    run = copied(name, tmp_path)
    parts = {}
    for rank in range(2):
        with h5py.File(rank_file(run, rank)) as file:
            parts[rank] = json.loads(file["manifest"][()])
    assert ttrace("lint", "--write", run).returncode == MATCH
    assert canonical(manifest_of(run)) == canonical(merge_manifests(parts))
