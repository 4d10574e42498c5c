"""Where the trace goes: the files of one rank, and the manifest once all ranks are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ttrace_torch import manifest, parts
from ttrace_torch.errors import TraceError
from ttrace_torch.hdf5 import RankFile
from ttrace_torch.meshes import Meshes
from ttrace_torch.precision import StepPrecision
from ttrace_torch.record import Record
from ttrace_torch.version import __version__

RUN_FACTS = {"framework", "model", "precision", "command", "created", "extra"}


class Output:
    """The files of one rank of a run.

    A path that ends in `.h5` is the single-file form, for a run of one rank; anything else is a
    folder. What this rank wrote there before, and the folder's manifest, are removed at once, so
    that an old part is never united with new ones.
    """

    def __init__(
        self,
        path: str | Path,
        meshes: Meshes,
        rank: int,
        run: Mapping[str, Any],
        compress: int | None = None,
    ) -> None:
        unknown = set(run) - RUN_FACTS
        if unknown:
            raise TraceError(
                f"run={{{', '.join(sorted(map(repr, unknown)))}}}: the facts are "
                f"{', '.join(sorted(RUN_FACTS))}; anything else goes into 'extra'"
            )
        if compress is not None and not 0 <= compress <= 9:
            raise TraceError(f"compress={compress}: the levels are 0 to 9")
        self.meshes = meshes
        self.rank = rank
        self.skipped: set[str] = set()
        meshes.default.coordinate(rank)
        self._run = dict(run)
        self._folder: Path | None = None
        path = Path(path)
        if path.suffix == ".h5":
            if len(meshes.ranks) != 1:
                raise TraceError(
                    f"{path}: a single file holds one rank, the mesh has {len(meshes.ranks)}; give "
                    "a folder, e.g. out='run/'"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            path.mkdir(parents=True, exist_ok=True)
            self._folder = path
            (path / parts.MANIFEST).unlink(missing_ok=True)
            path = path / parts.rank_file(rank)
        path.unlink(missing_ok=True)
        self._file = RankFile(path, rank, compress)
        self._tensors: list[dict[str, Any]] = []
        self._optimizer: list[dict[str, Any]] = []

    def write(
        self,
        records: Iterable[Record],
        precision: StepPrecision,
        optimizer: Iterable[dict[str, Any]],
    ) -> None:
        """Writes a finished step. What could not be written is not in the manifest either."""
        records = list(records)
        self._file.write(records)
        self._tensors.extend(record.entry(precision) for record in records)
        self._optimizer.extend(optimizer)

    def finish(
        self,
        modules: list[dict[str, Any]] | None,
        noise: dict[str, Any] | None,
        plan: dict[str, Any] | None = None,
    ) -> None:
        """Puts this rank's file in place, and writes the manifest if it was the last one."""
        run = {**self._run, "collector": f"ttrace_torch {__version__}"}
        if self.skipped:
            run["extra"] = {**run.get("extra", {}), "skipped": sorted(self.skipped)}
        if noise is not None:
            run["noise"] = noise
        if plan is not None:
            run["plan"] = plan
        part: dict[str, Any] = {
            "schema": manifest.SCHEMA,
            "run": run,
            "meshes": self.meshes.to_json(),
            "tensors": manifest.sorted_tensors(self._tensors),
        }
        if self._optimizer:
            part["optimizer"] = self._optimizer
        if modules is not None:
            part["modules"] = modules
        self._file.finish(manifest.dumps(part))
        if self._folder is not None and parts.complete(self._folder, self.meshes.ranks):
            parts.write_manifest(self._folder)

    def discard(self) -> None:
        """Leaves nothing behind."""
        self._file.discard()
