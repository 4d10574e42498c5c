"""The thread that writes, and the bound on what waits for it."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Callable

from ttrace_torch.failure import Failure, say

# How often a step that waits looks whether the thread is still there.
_PATIENCE_SECONDS = 1.0
_MIB = 1 << 20

Job = Callable[[], None]


class Writer:
    """Runs jobs one after the other in a thread of its own, off the critical path of the step.

    A job that throws is the last one: `failed` is called with the error, and the rest is dropped.
    """

    def __init__(self, rank: int, memory: int, failure: Failure, undo: Callable[[], None]) -> None:
        """memory: how many bytes may wait. undo: called in the thread where a job has thrown."""
        self._rank = rank
        self._memory = memory
        self._failure = failure
        self._undo = undo
        self._jobs: deque[tuple[str, Job | None, int]] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._told = False

    def reserve(self, size: int) -> bool:
        """Waits until `size` more bytes may wait; False where nothing is recorded any more.

        What is larger than the bound passes when nothing else waits.
        """
        if os.getpid() != self._process:
            error = RuntimeError("a tracer records in the process that made it alone")
            self._failure.record("after a fork", error)
        with self._changed:
            while self._waiting and self._waiting + size > self._memory:
                if self._failure.message is not None:
                    break
                self._tell()
                if self._thread is None or not self._thread.is_alive():
                    self._failure.record("writing", RuntimeError("the writing thread has died"))
                    break
                self._changed.wait(_PATIENCE_SECONDS)
            if self._failure.message is not None:
                return False
            self._waiting += size
        return True

    def release(self, size: int) -> None:
        """Gives back what was reserved and is not needed."""
        with self._changed:
            self._waiting -= size
            self._changed.notify_all()

    def submit(self, doing: str, job: Job, size: int = 0) -> None:
        """Runs `job` after all earlier ones. `size`: what was reserved for it; `doing`: in words"""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._jobs.append((doing, job, size))
            self._changed.notify_all()
        self._start()

    def stop(self) -> None:
        """Waits for all jobs, and ends the thread."""
        if os.getpid() != self._process or self._thread is None:
            return
        with self._changed:
            self._jobs.append(("", None, 0))
            self._changed.notify_all()
        self._thread.join()

    def _start(self) -> None:
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._work, name="ttrace-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread can be had any more when the interpreter ends.
            while self._jobs:
                self._run(*self._jobs.popleft())
            return
        self._thread = thread

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    self._changed.wait()
                doing, job, size = self._jobs.popleft()
            if job is None:
                return
            self._run(doing, job, size)
            # The tensor goes before its bytes are counted as free.
            del job
            self.release(size)

    def _run(self, doing: str, job: Job | None, size: int) -> None:
        if job is None or self._failure.message is not None:
            return
        try:
            job()
        except BaseException as error:
            self._undo()
            self._failure.record(doing, error)

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            say(
                f"rank {self._rank}: {self._memory / _MIB:.0f} MiB wait to be written, so the step "
                "waits too; memory= or TTRACE_MEMORY allows more"
            )
