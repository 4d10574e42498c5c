"""Datasets that are not what the manifest says, and values that leave nothing to compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from conformance.write_trace import Tensor, write_candidate, write_reference
from support.text_report import evidence

from .conftest import Run
from .small_traces import (
    COPIED,
    SHARDED,
    check_answer,
    check_diverged,
    check_inconclusive,
    check_match,
    check_refused,
    edit_manifest,
    write_pair,
)

SECONDS = 20
NAN = float("nan")


@pytest.fixture
def compare(ttrace: Run) -> Run:
    return lambda *arguments: ttrace("compare", *arguments, timeout=SECONDS)


def with_shape(file: h5py.File) -> None:
    file[SHARDED] = np.zeros((4, 2), "<f4")


def with_transposed_shape(file: h5py.File) -> None:
    file[SHARDED] = np.zeros((2, 3), "<f4")


def with_dtype(file: h5py.File) -> None:
    file[SHARDED] = np.zeros((3, 2), "<f8")


def with_big_endian_numbers(file: h5py.File) -> None:
    file[SHARDED] = np.zeros((3, 2), ">f4")


def with_text(file: h5py.File) -> None:
    file[SHARDED] = "numbers"


def with_a_compound_type(file: h5py.File) -> None:
    file[SHARDED] = np.zeros((3, 2), [("re", "<f4"), ("im", "<f4")])


def with_no_dataspace(file: h5py.File) -> None:
    file[SHARDED] = h5py.Empty("<f4")


def with_a_group(file: h5py.File) -> None:
    file.create_group(SHARDED)


def with_another_dtype_attribute(file: h5py.File) -> None:
    file[SHARDED] = np.zeros((3, 2), "<f4")
    file[SHARDED].attrs["ttrace_dtype"] = "bfloat16"


def with_nothing_written(file: h5py.File) -> None:
    file.create_dataset(SHARDED, (3, 2), "<f4")


def with_a_chunk_unwritten(file: h5py.File) -> None:
    file.create_dataset(SHARDED, (3, 2), "<f4", chunks=(1, 2))[0] = 1


def with_a_soft_link(file: h5py.File) -> None:
    file["elsewhere"] = np.arange(1, 7, dtype="<f4").reshape(3, 2)
    file[SHARDED] = h5py.SoftLink("/elsewhere")


def with_a_dangling_link(file: h5py.File) -> None:
    file[SHARDED] = h5py.SoftLink("/nowhere")


def with_a_link_out_of_the_trace(file: h5py.File) -> None:
    file[SHARDED] = h5py.ExternalLink("../ref.h5", SHARDED)


def with_a_linked_group(file: h5py.File) -> None:
    file.move("/step_000000", "/aside")
    file["step_000000"] = h5py.ExternalLink("../ref.h5", "/step_000000")


def with_data_in_another_file(file: h5py.File) -> None:
    other = Path(file.filename).with_name("data.bin")
    other.write_bytes(np.zeros(6, "<f4").tobytes())
    file.create_dataset(SHARDED, (3, 2), "<f4", external=[(other, 0, 24)])


def with_a_virtual_dataset(file: h5py.File) -> None:
    file["elsewhere"] = np.zeros((3, 2), "<f4")
    layout = h5py.VirtualLayout((3, 2), "<f4")
    layout[:] = h5py.VirtualSource(".", "elsewhere", shape=(3, 2))
    file.create_virtual_dataset(SHARDED, layout)


def with_an_unknown_filter(file: h5py.File) -> None:
    file.create_dataset(SHARDED, data=np.zeros((3, 2), "<f4"), chunks=(3, 2), compression="lzf")


def with_a_damaged_chunk(file: h5py.File) -> None:
    data = np.zeros((3, 2), "<f4")
    dataset = file.create_dataset(SHARDED, data=data, chunks=(3, 2), compression="gzip")
    dataset.id.write_direct_chunk((0, 0), b"this is not deflated")


BROKEN: dict[Callable[[h5py.File], None], str] = {
    with_shape: "dataset is [4, 2] f32, the manifest's placement gives rank 0 [3, 2] f32",
    with_transposed_shape: "dataset is [2, 3] f32, the manifest's placement gives rank 0 [3, 2]",
    with_dtype: "dataset is [3, 2] f64, the manifest's placement gives rank 0 [3, 2] f32",
    with_big_endian_numbers: "the element type is none of the trace format's",
    with_text: "the element type is none of the trace format's",
    with_a_compound_type: "the element type is none of the trace format's",
    with_no_dataspace: "has no shape",
    with_a_group: "not a dataset",
    with_another_dtype_attribute: 'ttrace_dtype says "bfloat16", the dataset\'s type is float32',
    with_nothing_written: "were never written",
    with_a_chunk_unwritten: "1 of 3 chunks were written",
    with_a_soft_link: "a soft or external link",
    with_a_dangling_link: "a soft or external link",
    with_a_link_out_of_the_trace: "a soft or external link",
    with_a_linked_group: "/step_000000: a soft or external link",
    with_data_in_another_file: "external files",
    with_a_virtual_dataset: "a virtual dataset",
    with_an_unknown_filter: "HDF5 filter 32000 is not allowed",
    with_a_damaged_chunk: "does not inflate to its 24 bytes",
    lambda file: None: "there is no such dataset; the manifest says this rank holds it",
}


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda f: f.__name__.strip("<>"))
def test_datasets_that_are_not_as_promised(
    compare: Run, ttrace: Run, tmp_path: Path, break_it: Callable[[h5py.File], None]
) -> None:
    reference, run = write_pair(tmp_path)
    rank_file = run / "rank_00000.h5"
    with h5py.File(rank_file, "a") as file:
        del file[SHARDED]
        break_it(file)
    reason = BROKEN[break_it]
    done = compare(reference, run)
    check_inconclusive(done, f"{rank_file}: /step_000000", reason)
    if break_it is not with_a_linked_group:
        check_inconclusive(done, "1 of 3 tensors could not be read", SHARDED, warnings=1)
    merged = ttrace("merge", run, "-o", tmp_path / "merged.h5")
    check_answer(merged, 3, "INCOMPLETE  ")
    assert reason in merged.stderr
    if break_it is not with_a_damaged_chunk:  # lint reads no numbers
        done = ttrace("lint", run)
        check_answer(done, 1, "FINDINGS  ")
        assert reason in done.stdout


def test_a_manifest_behind_a_link(compare: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    with h5py.File(reference, "a") as file:
        file.move("manifest", "aside")
        file["manifest"] = h5py.SoftLink("/aside")
    check_refused(compare(reference, run), f"{reference}: /manifest: a soft or external link")


def test_a_compressed_bomb_is_not_unpacked_at_once(compare: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    huge = {"name": "fc", "kind": "output", "step": 0, "dtype": "uint8", "shape": [2**36]}
    with h5py.File(tmp_path / "huge.h5", "w") as file:
        file.create_dataset(SHARDED, (2**36,), "u1", chunks=(2**20,), compression="gzip")
        manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": [huge]}
        file["manifest"] = str(manifest).replace("'", '"')
    done = compare(tmp_path / "huge.h5", tmp_path / "huge.h5")
    check_inconclusive(done, "0 of 65536 chunks were written")


def floats(name: str, *values: float, **more: object) -> Tensor:
    return Tensor(name, "output", "float32", np.array(values, "<f4"), **more)


def compare_tensors(
    compare: Run, folder: Path, references: list[Tensor], candidates: list[Tensor]
) -> object:
    write_reference(folder / "ref.h5", references)
    write_candidate(folder / "run", candidates)
    return compare(folder / "ref.h5", folder / "run")


def test_no_tensor_in_common(compare: Run, tmp_path: Path) -> None:
    done = compare_tensors(compare, tmp_path, [floats("module.fc", 1, 2)], [floats("fc", 1, 2)])
    check_inconclusive(
        done,
        "nothing was compared: the traces have no tensor in common",
        "the reference has module.fc · output · step 0, the candidate fc · output · step 0",
        warnings=2,  # of the doctor: other names, and kinds that are not recorded
    )


def test_no_tensors_at_all(compare: Run, tmp_path: Path) -> None:
    done = compare_tensors(compare, tmp_path, [], [])
    # What the doctor says: no steps, and no kinds.
    check_inconclusive(done, "nothing was compared: both traces are empty", warnings=2)


def test_only_tensors_without_elements(compare: Run, tmp_path: Path) -> None:
    done = compare_tensors(
        compare, tmp_path, [floats("a"), floats("b")], [floats("a"), floats("b")]
    )
    check_inconclusive(done, "nothing was compared", "no elements", warnings=0)


def test_nan_on_one_side(compare: Run, tmp_path: Path) -> None:
    done = compare_tensors(compare, tmp_path, [floats("a", 1, 2)], [floats("a", 1, NAN)])
    check_diverged(done, "a · output · step 0")
    assert "1 NaN or Inf in the candidate, 0 in the reference" in done.stdout
    assert "first at [1]" in done.stdout


def test_a_reference_with_nan(compare: Run, tmp_path: Path) -> None:
    done = compare_tensors(compare, tmp_path, [floats("a", 1, NAN)], [floats("a", 1, 2)])
    check_diverged(done, "a · output · step 0")


def test_infinities_of_different_sign(compare: Run, tmp_path: Path) -> None:
    inf = float("inf")
    done = compare_tensors(compare, tmp_path, [floats("a", 1, inf)], [floats("a", 1, -inf)])
    check_diverged(done, "a · output · step 0")


def test_nan_everywhere_on_both_sides(compare: Run, tmp_path: Path) -> None:
    nothing = [floats("a", NAN, NAN), floats("b", NAN)]
    done = compare_tensors(compare, tmp_path, nothing, nothing)
    check_inconclusive(done, "2 not judged", "no element is finite", warnings=0)


def test_nan_in_the_same_places(compare: Run, tmp_path: Path) -> None:
    some = [floats("a", 1, NAN, 3)]
    check_match(compare_tensors(compare, tmp_path, some, some), 1)


def test_values_whose_squares_overflow(compare: Run, tmp_path: Path) -> None:
    huge = [Tensor("a", "output", "float64", np.array([1e200, -1e200]))]
    done = compare_tensors(compare, tmp_path, huge, huge)
    check_inconclusive(done, "1 not judged", "the squares of its values overflow", warnings=0)


def test_tensors_without_dimensions(compare: Run, tmp_path: Path) -> None:
    def scalar(value: float) -> list[Tensor]:
        return [Tensor("loss", "loss", "float32", np.asarray(value, "<f4"))]

    check_match(compare_tensors(compare, tmp_path, scalar(2), scalar(2)), 1)
    (tmp_path / "other").mkdir()
    done = compare_tensors(compare, tmp_path / "other", scalar(2), scalar(2.5))
    check_diverged(done, "loss · loss · step 0")


def test_a_copy_that_another_rank_does_not_have(compare: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    with h5py.File(run / "rank_00001.h5", "a") as file:
        file[COPIED][1] = 7
    done = compare(reference, run)
    check_diverged(done, "fc.weight · param · step 0")
    assert "tp 0 and tp 1 hold different values, and should be replicas" in done.stdout


def test_another_class_of_type(compare: Run, tmp_path: Path) -> None:
    integers = [Tensor("a", "output", "int32", np.array([1, 2], "<i4"))]
    done = compare_tensors(compare, tmp_path, [floats("a", 1, 2)], integers)
    check_diverged(done, "a · output · step 0")
    assert "1 incomparable" in done.stdout
    assert evidence(done.stdout)["shapes"] == (
        "reference [2] f32 (1 × [2] -> [2]); candidate [2] i32 (2 × [2] -> [2], replicas over tp)"
    )


def test_a_scale_that_is_not_finite_or_on_integers(compare: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    edit_manifest(run, lambda m: m["tensors"][0].update(scale=1e999))
    check_refused(compare(reference, run), str(run))
    (tmp_path / "again").mkdir()
    _, other = write_pair(tmp_path / "again")
    edit_manifest(other, lambda m: m["tensors"][0].update(scale=2, dtype="int32"))
    check_refused(compare(reference, other), "/tensors/0/scale", "only floating-point")
