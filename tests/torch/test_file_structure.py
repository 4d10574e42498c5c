"""The structures of a rank's file, which the collector writes itself, against HDF5."""

from __future__ import annotations

import shutil
import subprocess
from math import prod

import h5py
import numpy as np
import pytest
import torch
from support.long_cases import chosen

from ttrace_torch.capture.records import Key, Record
from ttrace_torch.write import chunks
from ttrace_torch.write.hdf5 import RankFile, bits_of, is_closed, read_manifest, stamped_run

TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn),
    *(torch.float8_e5m2, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8),
    *(torch.uint16, torch.uint32, torch.uint64, torch.bool),
]


def made(path, compress=None, run="one"):
    file = RankFile(path, 3, compress, run)
    file.create()
    return file


def put(file, name, value, step=0, kind="output", microbatch=None, call=0):
    key = Key(step, microbatch, kind, name, call)
    record = Record(key, value.dtype, list(value.shape), {}, 0)
    file.write(record, bits_of(value))
    return record


def stored(file, path, itemsize):
    """The bytes of a dataset, without a conversion."""
    dataset = file[path]
    found = np.empty(dataset.shape, f"V{itemsize}")
    dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, found, mtype=dataset.id.get_type())
    return found.tobytes()


def check(path, tensors):
    """The file has these tensors, path -> tensor, and nothing else."""
    found = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.append(name) if hasattr(item, "shape") else None)
        assert set(found) - {"manifest", "ranges"} == set(tensors)
        for name, tensor in tensors.items():
            assert file[name].shape == file[name].maxshape == tuple(tensor.shape), name
            assert file[name].attrs["ttrace_dtype"].decode() == str(tensor.dtype)[6:]
            assert stored(file, name, tensor.element_size()) == bits_of(tensor).tobytes(), name


def check_with_tools(path, copies=True):
    """HDF5's own programs, of whatever release, read the whole file and copy it."""
    copy = path.with_suffix(".copy")
    commands = [("h5dump", "-H", path), ("h5stat", path)]
    if copies:
        commands += [("h5repack", path, copy), ("h5diff", path, copy)]
    for program, *arguments in commands:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; it is in the package hdf5-tools")
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 and not done.stderr, (program, done.stderr)


# Sizes of groups that HDF5's own programs read, which takes them seconds for thousands of tensors.
FOR_TOOLS = chosen("group that fills its trees", [1, 2, 8, 9, 255, 256, 257, 8193], [8192])
# All programs; of the others, those that walk its trees and read none of its elements.
FOR_ALL_TOOLS = chosen("group that is copied", [1, 2, 8, 9, 255, 256, 257], [8192, 8193])


# A table of symbols has 8, the node above it 32 tables, the one above that 32 nodes.
@pytest.mark.parametrize("count", [1, 2, 8, 9, 255, 256, 257, 8192, 8193, 70_000])
def test_groups_of_any_size(tmp_path, count):
    file = made(tmp_path / "run.h5")
    for number in range(count):
        # Not in the order of their names, and many are the beginning of others.
        put(file, f"n{number * 7919 % count}", torch.tensor([float(number)]))
    file.commit("{}", closed=True)
    with h5py.File(tmp_path / "run.h5") as opened:
        group = opened["step_000000/output"]
        names = [f"n{number}" for number in range(count)]
        assert list(group) == sorted(names) and len(group) == count
        for number in range(0, count, max(1, count // 999)):
            (value,) = group[f"n{number * 7919 % count}"][()]
            assert value == number
        assert "n" not in group and f"n{count}" not in group and "o" not in group
    if count in FOR_TOOLS:
        check_with_tools(tmp_path / "run.h5", count in FOR_ALL_TOOLS)


@pytest.mark.parametrize("compress", [None, 0, 4])
def test_every_type_and_shape(tmp_path, monkeypatch, compress):
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 1000)
    file, tensors = made(tmp_path / "run.h5", compress), {}
    for dtype in TYPES:
        for shape in [(), (1,), (3, 5), (2, 0), (2, 3, 4, 5), (65, 33)]:
            value = (torch.arange(prod(shape)).reshape(shape) % 7).to(dtype)
            name = f"{dtype}{list(shape)}"[6:]
            put(file, name, value)
            if value.numel():
                tensors[f"step_000000/output/{name}"] = value
    turned = torch.arange(12.0).reshape(3, 4).t()
    put(file, "turned", turned)
    tensors["step_000000/output/turned"] = turned
    file.commit("{}", closed=True)
    check(tmp_path / "run.h5", tensors)
    check_with_tools(tmp_path / "run.h5")


# A node of a tree has 64 chunks; each of these has 2 elements.
@pytest.mark.parametrize("count", [1, 63, 64, 65, 4096, 4097])
def test_trees_of_chunks(tmp_path, monkeypatch, count):
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 8)
    file, tensors = made(tmp_path / "run.h5", 1), {}
    for name, shape in (("long", (2 * count - 1,)), ("rows", (count, 2)), ("odd", (5, 3, 3))):
        tensors[f"step_000000/output/{name}"] = torch.arange(float(prod(shape))).reshape(shape)
        put(file, name, tensors[f"step_000000/output/{name}"])
    file.commit("{}")
    check(tmp_path / "run.h5", tensors)
    with h5py.File(tmp_path / "run.h5") as opened:
        group = opened["step_000000/output"]
        assert group["long"].chunks == (min(2, 2 * count - 1),) and group["odd"].chunks == (1, 1, 2)
        assert group["long"].id.get_num_chunks() == count
        assert group["odd"].compression == "gzip" and group["odd"].shuffle
        assert group["odd"].compression_opts == 1
    check_with_tools(tmp_path / "run.h5")


@pytest.mark.parametrize("name", ["é" * 256, "日本", "a b", '"\\', "p", "x" * 512, "x" * 511, "~"])
def test_names(tmp_path, name):
    file = made(tmp_path / "run.h5")
    # Names in the order of their bytes, which for these differs from others.
    tensors = {one: torch.ones(2) for one in (name, "pp", "Z", "z", "\U0001f600", "\uffff", "p.p")}
    for one, value in tensors.items():
        put(file, one, value, microbatch=2, call=1)
    file.commit("{}", closed=True)
    group = "step_000000/mb_0002/call_0001/output"
    check(tmp_path / "run.h5", {f"{group}/{one}": value for one, value in tensors.items()})
    check_with_tools(tmp_path / "run.h5")


def test_manifests_of_any_length(tmp_path):
    """The heap of a text has 4096 bytes at least, and room for a free object or not."""
    for length in (1, 7, 8, 9, *range(4040, 4110), 100_000):
        file = made(tmp_path / "run.h5")
        text = ("ä" * (length // 2) + "x" * (length % 2)) if length % 5 else "y" * length
        file.commit(text)
        assert read_manifest(tmp_path / "run.h5") == text
    check_with_tools(tmp_path / "run.h5")


@pytest.mark.parametrize("run", ["", "one", "ü" * 2048, "x" * 4097])
def test_attributes_of_the_root(tmp_path, run):
    file = made(tmp_path / "run.h5", run=run)
    put(file, "a", torch.ones(2))
    file.commit("{}")
    assert not is_closed(tmp_path / "run.h5")
    file.commit("[]", closed=True)
    assert is_closed(tmp_path / "run.h5") and read_manifest(tmp_path / "run.h5") == "[]"
    assert stamped_run(tmp_path / "run.h5") == (run if 0 < len(run.encode()) <= 4096 else None)
    with h5py.File(tmp_path / "run.h5") as opened:
        assert opened.attrs["ttrace_rank"] == 3 and opened.attrs["ttrace_closed"] == 1
        assert h5py.check_string_dtype(opened["manifest"].dtype).encoding == "utf-8"


@pytest.mark.parametrize("compress", [None, 4])
def test_steps_between_which_others_are_dropped(tmp_path, compress):
    file, tensors = made(tmp_path / "run.h5", compress), {}
    for step in range(40):
        value = torch.arange(float(3 + step)) if step % 3 else torch.tensor([True] * (step + 1))
        record = put(file, "a", value, step)
        put(file, "b", torch.tensor(2.5), step, "loss", microbatch=1)
        if step % 2:
            file.rollback()
            continue
        if value.dtype == torch.float32:
            file.add(record, value)
            value = value + value
        # Larger than what waits to be written.
        put(file, "c", torch.full((300_000,), float(step)), step)
        file.commit("{}" * step)
        tensors[f"step_{step:06d}/output/a"] = value
        tensors[f"step_{step:06d}/output/c"] = torch.full((300_000,), float(step))
        tensors[f"step_{step:06d}/mb_0001/loss/b"] = torch.tensor(2.5)
        assert read_manifest(tmp_path / "run.h5") == "{}" * step
        if step % 7 == 0:
            check(tmp_path / "run.h5", tensors)
    file.commit("closed", closed=True)
    check(tmp_path / "run.h5", tensors)
    check_with_tools(tmp_path / "run.h5")
