"""The merger that the other tests rely on."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from gallery.merge import Key, merge, relative_error


def write(folder: Path, placement: str | dict, shape: list[int], *shards: np.ndarray) -> Path:
    folder.mkdir()
    entry = {"name": "x", "kind": "output", "step": 0, "microbatch": 3, "dtype": "float32"}
    manifest = {
        "schema": "ttrace.manifest/2",
        "meshes": {"": {"axes": [{"name": "tp", "size": len(shards)}]}},
        "tensors": [{**entry, "shape": shape, "placements": {"tp": placement}}],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for rank, shard in enumerate(shards):
        with h5py.File(folder / f"rank_{rank:05}.h5", "w") as file:
            file["/step_000000/mb_0003/output/x"] = shard.astype(np.float32)
    return folder


KEY = Key(step=0, microbatch=3, kind="output", name="x", call=0, copy=0)
A, B = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])


@pytest.mark.parametrize(
    ("placement", "whole"),
    [
        ({"shard": 0}, [[1, 2], [3, 4]]),
        ({"shard": 1}, [[1, 2, 3, 4]]),
        ({"partial": "sum"}, [[4, 6]]),
        ("replicate", [[1, 2]]),
    ],
)
def test_placements(tmp_path: Path, placement: str | dict, whole: list) -> None:
    shape = list(np.shape(whole))
    merged = merge(write(tmp_path / "run", placement, shape, A, B))[KEY]
    np.testing.assert_array_equal(merged.value, whole)
    assert merged.agree == (placement != "replicate")
    np.testing.assert_array_equal(merged.copies, [A, B])


def test_equal_replicas_agree(tmp_path: Path) -> None:
    assert merge(write(tmp_path / "run", "replicate", [1, 2], A, A))[KEY].agree


def test_a_shape_that_is_not_the_manifests_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        merge(write(tmp_path / "run", {"shard": 0}, [1, 4], A, B))


def test_relative_error() -> None:
    assert relative_error(np.array([3.0, 4.0]), np.array([3.0, 4.5])) == pytest.approx(0.1)
    assert relative_error(np.zeros(2), np.zeros(2)) == 0
    assert relative_error(np.zeros(2), np.ones(2)) == np.inf
    assert relative_error(np.array([1, 2]), np.array([1, 3])) == np.inf
