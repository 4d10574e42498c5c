"""The table of ranges in a rank's file, read from its page alone, against h5py."""

from __future__ import annotations

import struct
import zlib

import h5py
import numpy as np
import torch
from small_models import TiedGPT, seeded, train_step

import ttrace_torch as tt
from ttrace_torch.capture.records import Key, Record
from ttrace_torch.write.hdf5 import RankFile, bits_of


def table_of(path):
    """Path of a dataset -> offset, type and shape as text. Checks the seal."""
    data = path.read_bytes()
    with h5py.File(path, "r") as file:
        table = file["ranges"][()].tobytes()
        at = file["ranges"].id.get_offset()
    assert table[:16] == b"ttrace.ranges/1\n"
    size, checksum, count, text = struct.unpack_from("<QQQQ", table, 16)
    offsets = np.frombuffer(table, "<u8", count, 48)
    numbers = np.frombuffer(table, "<u4", count, 48 + 8 * count)
    lines = table[48 + 12 * count :]
    facts = lines[:text].decode().splitlines()
    names = lines[text:].decode().splitlines()
    assert len(names) == len(set(names)) == count
    kept = np.ones(len(data), bool)
    kept[at + 16 : at + 32] = False
    found = {}
    for name, offset, number in zip(names, offsets.tolist(), numbers.tolist(), strict=True):
        found[name] = (offset, facts[number])
        with h5py.File(path, "r") as file:
            kept[offset : offset + file[name].id.get_storage_size()] = False
    assert size == len(data)
    assert checksum == zlib.crc32(np.frombuffer(data, np.uint8)[kept].tobytes())
    return found


def check_table(path):
    found = table_of(path)
    stored = {}
    with h5py.File(path, "r") as file:

        def keep(name, item):
            if isinstance(item, h5py.Dataset) and name not in ("manifest", "ranges"):
                dtype = item.attrs["ttrace_dtype"].decode()
                facts = " ".join(map(str, (dtype, *item.shape)))
                stored["/" + name] = (item.id.get_offset(), facts)

        file.visititems(keep)
    assert found == stored
    return found


def write(file, name, microbatch, shape, step=0):
    key = Key(step=step, microbatch=microbatch, kind="output", name=name, call=0)
    record = Record(key, torch.bfloat16, list(shape), {}, 0)
    file.write(record, bits_of(torch.ones(shape, dtype=torch.bfloat16)))
    return record


def test_the_table_has_every_tensor_of_a_run(tmp_path):
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
        for step in range(3):
            train_step(model, tracer, optimizer, step=step, microbatches=2)
    assert len(check_table(tmp_path / "run.h5")) > 100


def test_only_a_closed_file_has_a_table(tmp_path):
    path = tmp_path / "rank_00000.h5"
    file = RankFile(path, 0, None)
    file.create()
    write(file, "a", 0, (3, 2))
    file.commit("{}")
    with h5py.File(path, "r") as opened:
        assert "ranges" not in opened
    write(file, "b", 0, (), step=1)
    file.rollback()
    write(file, "c", 0, (4,), step=2)
    file.commit("{}" * 3000)
    file.commit("{}", closed=True)
    assert set(check_table(path)) == {
        "/step_000000/mb_0000/output/a",
        "/step_000002/mb_0000/output/c",
    }


def test_datasets_that_move_are_where_they_are_then(tmp_path):
    path = tmp_path / "rank_00000.h5"
    file = RankFile(path, 0, None)
    file.create()
    records = [write(file, "a", 9, (2,)), write(file, "b", 9, (3,)), write(file, "a", 5, (2,))]
    assert len(file.renumber(records, {9: 4})) == 3
    file.commit("{}", closed=True)
    assert set(check_table(path)) == {
        "/step_000000/mb_0004/output/a",
        "/step_000000/mb_0004/output/b",
        "/step_000000/mb_0005/output/a",
    }


def test_datasets_that_are_left_out_are_in_no_table(tmp_path):
    path = tmp_path / "rank_00000.h5"
    file = RankFile(path, 0, None)
    file.create()
    records = [write(file, "a", 4, (2,)), write(file, "a", 9, (2,)), write(file, "b", 9, (3,))]
    assert len(file.renumber(records, {9: 4})) == 2
    file.commit("{}", closed=True)
    assert set(check_table(path)) == {
        "/step_000000/mb_0004/output/a",
        "/step_000000/mb_0004/output/b",
    }


def test_compressed_files_have_no_table(tmp_path):
    path = tmp_path / "rank_00000.h5"
    file = RankFile(path, 0, 4)
    file.create()
    write(file, "a", 0, (3, 2))
    write(file, "scalar", 0, ())
    file.commit("{}", closed=True)
    with h5py.File(path, "r") as opened:
        assert "ranges" not in opened


def test_a_name_with_an_end_of_line_leaves_the_file_without_a_table(tmp_path):
    path = tmp_path / "rank_00000.h5"
    file = RankFile(path, 0, None)
    file.create()
    write(file, "a\nb", 0, (3,))
    file.commit("{}", closed=True)
    with h5py.File(path, "r") as opened:
        assert "ranges" not in opened
