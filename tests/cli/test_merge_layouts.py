"""merge puts every placement of trace-v2.md together again; the ranks' arrays are cut by numpy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from conformance.numpy_merge import dataset_path
from support.ttrace_cli import MATCH, REPOSITORY, ttrace_binary

from .conftest import Run
from .rank_files import Held, entry, manifest, mesh, write_run
from .small_traces import SWAPPED, check_answer, check_match

EXAMPLE = json.loads((REPOSITORY / "schemas" / "examples" / "placements.json").read_text())
MESHES = EXAMPLE["meshes"] | {"hsdp": mesh(replicate=4, shard=2)}
INDEX = "dispatch.rows"


@dataclass
class Case:
    described: dict
    whole: np.ndarray
    held: Held


def numbers(*shape: int) -> np.ndarray:
    """Exact in float32, as are their sums."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype="f4").reshape(shape)


def case(name: str, whole: np.ndarray, held: Held, **members: object) -> Case:
    return Case(entry(name, whole.shape, **members), whole, held)


def over_default(part: dict[tuple[int, int, int], np.ndarray]) -> Held:
    """By (dp, cp, tp) of the default mesh."""
    return {dp * 4 + cp * 2 + tp: array for (dp, cp, tp), array in part.items()}


TWO = (0, 1)
EVERYWHERE = [(dp, cp, tp) for dp in TWO for cp in TWO for tp in TWO]


def zigzag() -> Case:
    whole = numbers(16, 1, 8)
    chunks = np.split(whole, 4)
    local = [np.concatenate([chunks[i], chunks[3 - i]]) for i in TWO]
    part = {(0, cp, tp): np.split(local[cp], 2)[tp] for cp in TWO for tp in TWO}
    placements = {"cp": {"shard": 0, "order": "zigzag"}, "tp": {"shard": 0}}
    return case("zigzag", whole, over_default(part), held_at={"dp": [0]}, placements=placements)


def two_dimensions() -> Case:
    whole = numbers(16, 2, 8)
    part = {(dp, cp, tp): whole[8 * cp : 8 * cp + 8, dp : dp + 1] for dp, cp, tp in EVERYWHERE}
    placements = {"dp": {"shard": 1}, "cp": {"shard": 0}}
    how = {"shard": 1, "of": [0, 1]}
    return case("batch", whole, over_default(part), placements=placements, microbatches=how)


def segments() -> Case:
    whole = numbers(12, 8)
    rows = [[0, 1, 2, 3, 6, 7, 9, 10], [4, 5, 8, 11]]
    part = {(dp, cp, tp): whole[rows[tp]] for dp, cp, tp in EVERYWHERE}
    cut = {"shard": 0, "segments": [6, 3, 3], "sizes": [[4, 2], [2, 1], [2, 1]]}
    return case("qkv", whole, over_default(part), placements={"tp": cut})


def flat_of_a_shard() -> Case:
    whole = numbers(12, 8)
    ranges = [[0, 20], [20, 48]]
    part = {
        (dp, cp, tp): np.split(whole, 2)[tp].ravel()[slice(*ranges[dp])]
        for dp, cp, tp in EVERYWHERE
    }
    placements = {"dp": {"flat": ranges}, "tp": {"shard": 0}}
    return case("flat", whole, over_default(part), placements=placements, kind="main_grad")


def experts() -> Case:
    whole = numbers(8, 64)
    held = {}
    for ep in range(4):
        for etp in TWO:
            local = whole[:, 16 * ep : 16 * ep + 16].reshape(8, 4, 4)  # four segments of four
            held[ep * 2 + etp] = local[:, :, 2 * etp : 2 * etp + 2].reshape(8, 8)
    placements = {"ep": {"shard": 1}, "etp": {"shard": 1, "segments": [4, 4], "repeat": 2}}
    return case("experts", whole, held, mesh="expert", placements=placements)


def strided() -> Case:
    whole = numbers(8, 8)
    held = {}
    for fsdp in TWO:
        local = np.concatenate([whole[2 * fsdp :][:2], whole[4 + 2 * fsdp :][:2]])
        for tp in TWO:
            held[4 + 2 * fsdp + tp] = np.split(local, 2)[tp]
    placements = {"fsdp": {"shard": 0, "stride": 2}, "tp": {"shard": 0}}
    return case("strided", whole, held, mesh="stage", placements=placements)


def boxes() -> Case:
    whole = numbers(3, 5)
    cuts = [[[0, 0], [3, 2]], [[0, 2], [3, 3]]]
    part = {(dp, cp, tp): np.split(whole, [2], axis=1)[tp] for dp, cp, tp in EVERYWHERE}
    return case("boxes", whole, over_default(part), placements={"tp": {"boxes": cuts}})


def rows() -> list[Case]:
    """Nine rows dealt to four experts, one of which has none and one a row of padding."""
    whole = numbers(9, 8)
    dealt = [[7, 0, -1, 3], [], [8, 1, 2], [4, 6, 5]]
    held, index = {}, {}
    for ep, wanted in enumerate(dealt):
        local = np.full((len(wanted), 8), 777, "f4")
        for i, row in enumerate(wanted):
            if row >= 0:
                local[i] = whole[row]
        for etp in TWO:
            held[ep * 2 + etp] = local
            index[ep * 2 + etp] = np.array(wanted, "i8")
    placements = {"ep": {"rows": {"dim": 0, "index": INDEX}}}
    sizes = {"ep": {"shard": 0, "sizes": [4, 0, 3, 3]}}
    index_members = {"kind": "index", "dtype": "int64", "mesh": "expert", "placements": sizes}
    return [
        case(INDEX, np.zeros(10, "i8"), index, **index_members),
        case("dispatch", whole, held, kind="output", mesh="expert", placements=placements),
    ]


def reduced(how: str) -> Case:
    """Over dp, of a tensor that tp cuts."""
    whole = numbers(6, 2)
    first, second = {
        "sum": (whole - 3, np.full_like(whole, 3)),
        "mean": (whole - 3, whole + 3),
        "max": (whole, whole - 1),
    }[how]
    part = {(dp, cp, tp): np.split((first, second)[dp], 2)[tp] for dp, cp, tp in EVERYWHERE}
    placements = {"dp": {"partial": how}, "tp": {"shard": 0}}
    return case(how, whole, over_default(part), kind="param_grad", placements=placements)


def hybrid() -> Case:
    """Cut over one axis, copies over the other; five rows are three and two."""
    whole = numbers(5, 2)
    held = {2 * copy + at: np.split(whole, [3])[at] for copy in range(4) for at in TWO}
    return case("hsdp", whole, held, mesh="hsdp", placements={"shard": {"shard": 0}})


def scalar() -> Case:
    whole = np.asarray(2.5, "f4")
    return case("loss", whole, dict.fromkeys(range(8), whole), kind="loss")


def only() -> Case:
    whole = numbers(4)
    part = {(dp, cp, 1): whole for dp in TWO for cp in TWO}
    return case("only", whole, over_default(part), placements={"tp": {"only": 1}})


def every_placement() -> list[Case]:
    single = [zigzag(), two_dimensions(), segments(), flat_of_a_shard(), experts(), strided()]
    more = [boxes(), hybrid(), scalar(), only(), reduced("sum"), reduced("mean"), reduced("max")]
    return [*single, *more, *rows()]


def test_the_cases_have_every_placement_of_the_example() -> None:
    def words(tensors: list[dict]) -> set[str]:
        placements = [p for tensor in tensors for p in tensor.get("placements", {}).values()]
        return {word for placement in placements for word in placement}

    assert words(EXAMPLE["tensors"]) <= words([c.described for c in every_placement()])


def test_every_placement_is_put_together_exactly(ttrace: Run, tmp_path: Path) -> None:
    cases = every_placement()
    tensors = [(c.described, c.held) for c in cases]
    run, merged = write_run(tmp_path / "run", MESHES, 8, tensors), tmp_path / "merged.h5"
    compared = [c for c in cases if c.described["name"] != INDEX]
    check_answer(ttrace("lint", run), MATCH, f"CLEAN  {len(cases)} tensors over 8 ranks")
    done = ttrace("merge", run, "-o", merged)
    check_answer(done, MATCH, f"MERGED  {len(compared)} tensors")
    assert done.stderr == ""
    with h5py.File(merged) as file:
        for c in compared:
            stored = file[dataset_path(c.described)][()]
            assert np.array_equal(stored, c.whole), c.described["name"]
        assert INDEX not in file["step_000000"].get("index", {})
    done = ttrace("lint", merged)
    check_answer(done, MATCH, f"CLEAN  {len(compared)} tensors over 1 rank")
    check_match(ttrace("compare", merged, run), len(compared))
    check_match(ttrace("compare", run, merged), len(compared), SWAPPED)
    again = shutil.copytree(run, tmp_path / "again")
    check_match(ttrace("compare", run, again), len(compared))


def test_a_changed_number_is_seen_through_every_placement(ttrace: Run, tmp_path: Path) -> None:
    [index] = [c for c in every_placement() if c.described["name"] == INDEX]
    for c in every_placement():
        if c.described["name"] == INDEX:
            continue
        folder = tmp_path / c.described["name"]
        cases = [c, index] if c.described["name"] == "dispatch" else [c]
        run = write_run(folder / "run", MESHES, 8, [(c.described, c.held) for c in cases])
        merged = folder / "merged.h5"
        assert ttrace("merge", run, "-o", merged).returncode == MATCH
        with h5py.File(merged, "a") as file:
            stored = file[dataset_path(c.described)]
            at = tuple(n - 1 for n in stored.shape)
            stored[at] += 1
        done = ttrace("compare", merged, run)
        check_answer(done, 1, "DIVERGED  ", first=f"{c.described['name']} · ")
        assert done.stdout.count("|d| = 1 at ") == 1


LAUNCHER = (
    "import resource, subprocess, sys\n"
    "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
    "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
)


def test_a_tensor_larger_than_the_memory_is_merged(tmp_path: Path) -> None:
    rows_of_rank, columns = 4096, 8192  # 128 MiB on each of two ranks
    described = entry("big", (2 * rows_of_rank, columns), placements={"tp": {"shard": 0}})
    run, merged = tmp_path / "run", tmp_path / "merged.h5"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps(manifest([described], {"": mesh(tp=2)})))
    block = np.arange(512 * columns, dtype="f4").reshape(512, columns)
    for rank in TWO:
        with h5py.File(run / f"rank_{rank:05d}.h5", "w") as file:
            data = file.create_dataset(dataset_path(described), (rows_of_rank, columns), "f4")
            for start in range(0, rows_of_rank, 512):
                data[start : start + 512] = block + rank
    # In a small process of its own: a child inherits the largest size of the one it is born of.
    command = [ttrace_binary(), "merge", run, "-o", merged]
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", LAUNCHER, *command],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    code, kibibytes = map(int, done.stdout.split())
    assert code == MATCH, done.stderr
    assert kibibytes < 120 * 1024
    with h5py.File(merged) as file:
        data = file[dataset_path(described)]
        assert data.shape == (2 * rows_of_rank, columns)
        for start in (0, rows_of_rank - 512, rows_of_rank, 2 * rows_of_rank - 512):
            assert np.array_equal(data[start : start + 512], block + start // rows_of_rank)
