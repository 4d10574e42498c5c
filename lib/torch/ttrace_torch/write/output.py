"""The output of one rank: its file, and the manifest once all ranks' files exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Callable

import torch

from ttrace_torch.base.dtypes import StepPrecision, with_computed
from ttrace_torch.base.process import run_id, say
from ttrace_torch.base.step_times import StepTimes
from ttrace_torch.capture.records import Record
from ttrace_torch.capture.selection import KINDS
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.version import __version__
from ttrace_torch.write import manifest, merge
from ttrace_torch.write.background import Failure, Writer, default_memory
from ttrace_torch.write.closing import close_run, list_incomplete
from ttrace_torch.write.done import tell_complete
from ttrace_torch.write.earlier import Claim, EarlierTrace, make_way, set_aside
from ttrace_torch.write.hdf5 import RankFile, bits_of
from ttrace_torch.write.host_copies import HostCopies
from ttrace_torch.write.kind import TraceKind
from ttrace_torch.write.last_line import last_line, size_of
from ttrace_torch.write.suggestions import tell_layouts

RUN_FACTS = {"id", "framework", "model", "precision", "command", "created", "extra"}


def check_path(path: str | Path, meshes: Meshes) -> None:
    """Throws TraceError for a single file where there are several ranks."""
    if Path(path).suffix == ".h5" and len(meshes.ranks) != 1:
        raise TraceError(
            f"{path}: a single file holds one rank, the mesh has {len(meshes.ranks)}; give a "
            "folder, e.g. out='run/'"
        )


class Output:
    """The file of one rank of a run.

    A path that ends in `.h5` is the single-file form, for a run of one rank; any other path is a
    folder. What an earlier run left there is moved out of the way at once, so that old parts are
    never merged with new ones.

    I/O errors go to `failure` and are never thrown.
    """

    def __init__(
        self,
        path: str | Path,
        meshes: Meshes,
        rank: int,
        run: Mapping[str, Any],
        compress: int | None = None,
        memory: int | None = None,
        recorded: Mapping[str, Any] | None = None,
        noise: int | None = None,
        plan: str | None = None,
        tells: bool = False,
    ) -> None:
        """memory: number of bytes that may wait to be written.
        recorded: the manifest's `run.recorded` without the steps.
        tells: whether to say at the end what was recorded.
        noise, plan: the seed of a noise run, the digest of a rewritten run's plan.
        """
        unknown = set(run) - RUN_FACTS
        if unknown:
            raise TraceError(
                f"run={{{', '.join(sorted(map(repr, unknown)))}}}: the facts are "
                f"{', '.join(sorted(RUN_FACTS))}; anything else goes into 'extra'"
            )
        self.meshes = meshes
        self.rank = rank
        self.skipped: set[str] = set()
        self.failure = Failure(rank)
        self.times = StepTimes()
        self._tells = tells
        meshes.default.coordinate(rank)
        drawn, is_shared = run_id(path)
        if not is_shared and len(meshes.ranks) > 1:
            drawn = f"{drawn}@{rank}"  # readers know by this that other ranks have other ids
        self._run = {"id": drawn, **run}
        self._recorded = dict(recorded or {"kinds": list(KINDS)})
        self._steps: list[int] = []
        self._folder: Path | None = None
        self._path = Path(path)
        if self._path.suffix != ".h5":
            self._folder = self._path
            self._path = self._folder / merge.rank_file(rank)
        self._file = RankFile(self._path, rank, compress, str(self._run["id"]))
        self._doing = f"writing {self._path}"
        self._copies = HostCopies()
        memory = default_memory() if memory is None else memory
        self._writer = Writer(rank, memory, self.failure, self._undo)
        self._tensors = manifest.TensorRows()
        self._optimizer: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._layouts: list[str] = []
        # Whether all ranks' files were complete when this one closed, the first to see it.
        self.closed_last = False
        self._kinds: set[str] = set()
        self._kind = TraceKind(meshes.default, noise, plan, self._run.get("model"))
        claim = Claim(rank, frozenset(meshes.ranks), drawn, self._kind)
        self._earlier: EarlierTrace | None = None
        try:
            self._earlier = make_way(Path(path), claim)
            self._file.create()
        except OSError as error:
            self.failure.record(f"making {self._path}", error)
            left = set_aside(Path(path), claim) if self._earlier is None else None
            if left is not None:
                say(left)

    def put(self, record: Record, value: torch.Tensor, again: bool) -> None:
        """Copies `value` and writes it in the background. Waits while too many bytes wait already.

        again: adds `value` to the values stored for the same record.
        """
        size = value.numel() * value.element_size()
        plain = value.is_cpu and value.layout == torch.strided
        if plain and not again and self._writer.is_small(size):
            self._put_small(record, value, size)
            return
        if not self._writer.reserve(size):
            return
        try:
            copy = self._copies.start(value)
        except (RuntimeError, MemoryError) as error:
            self._writer.release(size)
            self.failure.record(f"copying {record.key}", error)
            return
        job = partial(self._store, record, copy, again)
        self._writer.submit(f"writing {record.key} to {self._path}", job, size)

    def _put_small(self, record: Record, value: torch.Tensor, size: int) -> None:
        try:
            bits = bits_of(value.resolve_neg()).copy()
        except (RuntimeError, TypeError, MemoryError) as error:
            self.failure.record(f"copying {record.key}", error)
            return
        self._writer.submit_small(self._doing, self._file.write, record, bits, size)

    def write(
        self,
        step: int,
        records: Iterable[Record],
        precision: StepPrecision,
        optimizer: Iterable[dict[str, Any]],
        facts: Mapping[str, Any],
        numbers: Mapping[int, int | None],
    ) -> None:
        """Ends a step, and commits all its records.

        facts: the manifest's `modules` and what `run` says of `products`, `noise`, `plan`,
            `rewritten` and `incomplete`, as far as they are known.
        numbers: provisional number -> final number of a micro-batch; None for the step.
        """
        self._facts.update(facts)
        self._steps = sorted([*self._steps, step])
        head = self._head(unfinished=True)
        records = list(records)
        self._kinds.update(record.key.kind for record in records)
        job = partial(self._commit, head, records, precision, list(optimizer), numbers)
        self._writer.submit(self._doing, job)

    def recorded_kind(self, kind: str) -> bool:
        """Whether a finished step has a tensor of that kind."""
        return kind in self._kinds

    def drop(self) -> None:
        """Ends a step, and drops its records."""
        self._writer.submit(self._doing, self._file.rollback)

    def finish(
        self, incomplete: Sequence[dict[str, Any]] = (), layouts: Sequence[str] = ()
    ) -> None:
        """Waits until this rank's file is complete. Writes the manifest if all ranks' files are.

        incomplete: the manifest's `run.incomplete` of this rank.
        layouts: lines for `trace(layouts=[...])` that would place what is left out.
        """
        self.times.end()
        self._facts["incomplete"] = list(incomplete)
        self._layouts = list(layouts)
        self._writer.submit(self._doing, partial(self._commit, self._head()))
        self._writer.stop()
        tensors, run = len(self._tensors), self._run["id"]
        if self.failure.message is None and self._folder is not None:
            try:
                if merge.complete(self._folder, self.meshes.ranks):
                    whole = close_run(self._folder, self._earlier_ids())
                    self.closed_last = whole is not None
                    if whole is not None:
                        tensors, run = len(whole["tensors"]), whole["run"]["id"]
            except Exception as error:
                self.failure.record(f"writing {self._folder / merge.MANIFEST}", error)
        elif self.failure.message is None:
            list_incomplete([self._head()["run"]])
        if self._file.empty:
            self.failure.remind("there is no trace of this rank")
        else:
            self.failure.remind(f"{self._path} has the steps before that")
        self._tell_of_earlier_trace()
        if self.failure.message is None and (self._folder is None or self.closed_last):
            self._tell_recorded(tensors)
            tell_complete(run, self._steps)

    def suggestions(self, reference: str | Path) -> list[str]:
        """What `tell_layouts` says, on the rank that closed last; nothing on others."""
        if not self.closed_last or self._folder is None:
            return []
        return tell_layouts(reference, self._folder)

    def discard(self) -> None:
        """Removes this rank's file."""
        self._writer.stop()
        self._file.discard()
        self._tell_of_earlier_trace()

    def _tell_of_earlier_trace(self) -> None:
        sentence = None if self._earlier is None else self._earlier.sentence()
        if sentence is not None:
            say(sentence)

    def _tell_recorded(self, tensors: int) -> None:
        if not self._tells or not self._steps:
            return
        path, files = self._path, [self._path]
        if self._folder is not None:
            path = self._folder
            files = [path / merge.rank_file(rank) for rank in self.meshes.ranks]
        say(last_line(path, self._kind, self._steps, tensors, size_of(files), self.times.cost()))

    def _store(self, record: Record, copy: Callable[[], torch.Tensor], again: bool) -> None:
        data = copy()
        if again:
            self._file.add(record, data)
        else:
            self._file.write(record, bits_of(data))

    def _commit(
        self,
        head: Mapping[str, Any],
        records: Iterable[Record] | None = None,
        precision: StepPrecision | None = None,
        optimizer: Iterable[dict[str, Any]] = (),
        numbers: Mapping[int, int | None] | None = None,
    ) -> None:
        if records is not None and precision is not None:
            kept = self._file.renumber(records, numbers or {})
            self._tensors.add(kept, precision)
        self._optimizer.extend(optimizer)
        part = {**head, "tensors": self._tensors.all()}
        if self._tensors.computed:
            # If the run stores no tensor in that type, nothing else in the trace shows it.
            named = with_computed(part["run"].get("precision"), self._tensors.computed)
            part["run"] = {**part["run"], "precision": named}
        if self._optimizer:
            part["optimizer"] = self._optimizer
        self._file.commit(manifest.dumps(part), closed=records is None)
        # A rank that records nothing never finishes a step.
        if self._earlier is not None and (records is not None or not self._recorded["kinds"]):
            self._earlier.forget()

    def _earlier_ids(self) -> frozenset[str]:
        """The ids of the run that stood here, unless the user gives all runs one id."""
        return frozenset() if self._earlier is None else self._earlier.ids - {self._run["id"]}

    def _undo(self) -> None:
        self._file.rollback()
        self._file.discard_unfinished()

    def _head(self, unfinished: bool = False) -> dict[str, Any]:
        """This rank's part of the manifest without the lists that the writing thread adds."""
        run = {**self._run, "collector": f"ttrace_torch {__version__}"}
        extra: dict[str, Any] = {}
        if self.skipped:
            extra["skipped"] = sorted(self.skipped)
        if self._layouts:
            extra["layouts"] = self._layouts
        if extra:
            run["extra"] = {**run.get("extra", {}), **extra}
        run["recorded"] = {**self._recorded, "steps": self._steps}
        if self._facts.get("incomplete"):
            run["incomplete"] = self._facts["incomplete"]
        if unfinished:
            run["unfinished"] = [self.rank]
        for fact in ("products", "noise", "plan", "updates_before", "rewritten"):
            if self._facts.get(fact) is not None:
                run[fact] = self._facts[fact]
        head: dict[str, Any] = {
            "schema": manifest.SCHEMA,
            "run": run,
            "meshes": self.meshes.to_json(),
        }
        if "modules" in self._facts:
            head["modules"] = self._facts["modules"]
        return head
