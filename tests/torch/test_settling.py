"""What the ranks settle on through the store of torch.distributed, such as the id of the run."""

from __future__ import annotations

import time

import torch
from fake_ranks import playing
from torch import distributed

from ttrace_torch.base.process import settle


def settling_rank(rank, port, attempt, folder):
    store = distributed.TCPStore("127.0.0.1", port, is_master=False)
    with playing(rank, 2, store):
        found = settle("topic", f"of rank {rank} in attempt {attempt}")
    (folder / f"{attempt} {rank}").write_text(repr(found))


def test_attempts_of_a_job_that_share_a_store_settle_anew(tmp_path):
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = torch.multiprocessing.get_context("fork")
    for attempt in range(3):
        ranks = [
            context.Process(target=settling_rank, args=(rank, store.port, attempt, tmp_path))
            for rank in range(2)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(300)
            assert process.exitcode == 0
        one, other = ((tmp_path / f"{attempt} {rank}").read_text() for rank in range(2))
        assert one == other
        assert one in {f"('of rank {rank} in attempt {attempt}', True)" for rank in range(2)}
        time.sleep(0.1)  # the system counts hundredths of a second


def test_a_process_alone_settles_with_nobody():
    assert settle("topic", "mine") == ("mine", False)


def test_a_store_that_is_gone(tmp_path):
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = distributed.TCPStore("127.0.0.1", store.port, is_master=False)
    with playing(0, 2, client):
        assert settle("topic", "mine") == ("mine", True)
        del store
        assert settle("other topic", "mine") == ("mine", False)
