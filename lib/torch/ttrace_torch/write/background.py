"""The writing thread, the bound on the memory that waits for it, and its first failure."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from functools import partial
from typing import Any, Callable

from ttrace_torch.base.process import say
from ttrace_torch.errors import TraceError
from ttrace_torch.write.done import tell_failed

_DEFAULT = 2 << 30
# Interval at which a waiting step checks that the thread is alive.
_PATIENCE_SECONDS = 1.0
_MIB = 1 << 20
# Of the small tensors that are handed over together: their bytes and their number at most.
_TOGETHER = 1 << 20
_MOST_TOGETHER = 1000

Job = Callable[[], None]


# Writes a tensor: a record and its values.
Write = Callable[[Any, Any], None]


def _write_all(write: Write, values: list[Any]) -> None:
    for record, value in zip(values[::2], values[1::2]):
        write(record, value)


def default_memory() -> int:
    """2 GiB, or a quarter of this machine's memory if that is less."""
    try:
        return min(_DEFAULT, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)
    except (ValueError, OSError, AttributeError):
        return _DEFAULT


def parse_memory(value: int | str, what: str) -> int:
    """Parses a number of bytes: an int, or a text such as "500MB", "4G" or "4GiB".

    Throws TraceError that begins with `what`, the name of the argument or variable.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMGT]?)(I?B)?", str(value).strip().upper())
    size = 0
    if match:
        # "MB" is a million bytes, "M" and "MiB" are 2^20.
        base = 1000 if match[3] == "B" else 1024
        size = int(float(match[1]) * base ** " KMGT".index(match[2] or " "))
    if size <= 0:
        raise TraceError(f'{what}{value!r} is no size; say bytes, or for example "500MB" or "4GiB"')
    return size


class Failure:
    """The first error of a rank's tracer. Errors are printed, at once and at the end, and never
    thrown.

    A full disk is no reason to stop a training job that runs for weeks.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._lock = threading.Lock()
        self.message: str | None = None

    def record(self, doing: str, error: BaseException) -> None:
        """Keeps `error`, which happened while `doing` something, and prints it. Ignores later
        errors."""
        with self._lock:
            if self.message is not None:
                return
            text = str(error) or type(error).__name__
            self.message = f"rank {self._rank} stopped recording: {doing}: {text}"
        say(f"{self.message}; training goes on without it")
        tell_failed(self.message)

    def remind(self, what_is_left: str) -> None:
        """Prints the error again, with the state of the trace."""
        if self.message is not None:
            say(f"{self.message}; {what_is_left}")


class Writer:
    """Runs jobs one after the other in a thread of its own, off the critical path of the step.

    A job that throws is the last one: the error goes to `failure`, and later jobs are dropped.
    """

    def __init__(self, rank: int, memory: int, failure: Failure, undo: Callable[[], None]) -> None:
        """memory: number of bytes that may wait to be written.
        undo: called in the thread after a job has thrown.
        """
        self._rank = rank
        self._memory = memory
        self._failure = failure
        self._undo = undo
        self._jobs: deque[tuple[str, Job | None, int]] = deque()
        # Small tensors that are not handed over yet, a record and its values in turn, how many
        # bytes they hold, and how many are reserved for them, some room at a time.
        self._small: list[Any] = []
        self._writing: tuple[str, Write] | None = None
        self._held = 0
        self._reserved = 0
        self._room = min(_TOGETHER, memory // 4)
        self._waiting = 0
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._announced = False

    def reserve(self, size: int) -> bool:
        """Waits until `size` more bytes may wait. Returns False if recording has ended.

        A tensor larger than the bound passes if nothing else waits.
        """
        if os.getpid() != self._process:
            error = RuntimeError("a tracer records in the process that made it alone")
            self._failure.record("after a fork", error)
            return False
        with self._changed:
            self._hand_over()
            while self._waiting and self._waiting + size > self._memory:
                if self._failure.message is not None:
                    break
                self._announce()
                if self._thread is None or not self._thread.is_alive():
                    self._failure.record("writing", RuntimeError("the writing thread has died"))
                    break
                self._changed.wait(_PATIENCE_SECONDS)
            if self._failure.message is not None:
                return False
            self._waiting += size
        return True

    def is_small(self, size: int) -> bool:
        """Whether a tensor of so many bytes is small."""
        return 16 * size <= self._room

    def submit_small(self, doing: str, write: Write, record: Any, value: Any, size: int) -> None:
        """Reserves `size` bytes and submits to write a small tensor, unless recording has ended.

        To wake the thread takes longer than to write a few bytes, so many such tensors are handed
        over at once, and before any other job. Nothing is made for one of them: Python's garbage
        collector would look at it.

        doing, write: the same for all small tensors.
        """
        with self._lock:
            full = self._held + size > self._reserved or len(self._small) >= 2 * _MOST_TOGETHER
            if full or os.getpid() != self._process:
                if not self.reserve(self._room):
                    return
                self._reserved += self._room
            self._held += size
            self._small += (record, value)
            self._writing = doing, write

    def _hand_over(self) -> None:
        if self._small and self._writing is not None:
            doing, write = self._writing
            self._give(doing, partial(_write_all, write, self._small), self._reserved)
            self._small, self._held, self._reserved = [], 0, 0

    def release(self, size: int) -> None:
        """Gives back a reservation that is not needed any more."""
        with self._changed:
            self._waiting -= size
            self._changed.notify_all()

    def submit(self, doing: str, job: Job, size: int = 0) -> None:
        """Runs `job` after all earlier ones.

        doing: description of the job, for error messages.
        size: number of bytes reserved for it.
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            self._hand_over()
            self._give(doing, job, size)

    def _give(self, doing: str, job: Job, size: int) -> None:
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
            # No thread can be started while the interpreter ends.
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
            # The tensor is freed before its bytes count as free.
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

    def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            say(
                f"rank {self._rank}: {self._memory / _MIB:.0f} MiB wait to be written, so the step "
                "waits too; memory= or TTRACE_MEMORY allows more"
            )
