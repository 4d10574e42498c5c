"""The trace of an earlier run that stands where a run is about to write, and where it goes.

Nothing of it is deleted before this run has recorded something. It is moved out of the way at
once, to `PATH.1`, so that nobody takes it for this run's. If it is of the same kind, each rank
deletes its share of it after its own first finished step.

Ranks begin at different times, on many nodes. Each therefore touches only what is certainly old:
the file of its own number, files of numbers that this run does not have, and the manifest, which
cannot be this run's before this rank has closed. The ranks agree on the target through the store of
torch.distributed. Without a store, each takes the first `PATH.n` that does not hold its file yet.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import NamedTuple

from ttrace_torch.base.files import remove_quietly
from ttrace_torch.base.process import settle
from ttrace_torch.write.kind import TraceKind, kind_of, manifest_in
from ttrace_torch.write.merge import MANIFEST, rank_file

_RANK_FILE = re.compile(r"rank_(\d{5,})\.h5(\.tmp)?")
# Name of the place for an earlier trace in a folder that no other can be made beside.
_INSIDE = "earlier"
# Number of files that are read to tell what stood there.
_MOST_READ = 3
_TRIES = 10


class Claim(NamedTuple):
    """A run that is about to write.

    rank: this one. ranks: those of the run. topic: names the run, alike on all its ranks.
    kind: None if it records nothing.
    """

    rank: int
    ranks: Collection[int]
    topic: str
    kind: TraceKind | None


class EarlierTrace:
    """A trace that was moved out of the way, as one rank sees it.

    replaced: whether this run replaces it, so that it may be deleted.
    ids: the ids of its run, as far as they are known.
    """

    def __init__(
        self, path: Path, claim: Claim, found: _Found, moved: list[Path], is_told_here: bool
    ) -> None:
        """moved: what this rank has moved. is_told_here: whether this rank says so."""
        self._path = path
        self._kind = claim.kind
        self._found = found
        self._moved = moved
        self._is_told_here = is_told_here
        self.ids = frozenset(found.ids)

    def forget(self) -> None:
        """Deletes this rank's share, if this run replaces the trace; called once it can."""
        if not self._found.replaced:
            return
        for path in self._moved:
            remove_quietly(path)
        with suppress(OSError):
            # The last rank removes the folder.
            os.rmdir(self._found.target)

    def sentence(self) -> str | None:
        """Says what became of the earlier trace; None on ranks that leave saying so to another."""
        found = self._found
        if not self._is_told_here:
            return None
        if found.replaced and not any(map(os.path.lexists, self._moved)):
            return f"{self._path} replaces {found.what}"
        text = f"{found.what}, which stood at {self._path}, is now {found.target}"
        if found.replaced or self._kind is None:
            return text
        return f"{text}, as this run is {self._kind}"


@dataclass(frozen=True)
class _Found:
    """An earlier trace or file at the path of this run.

    target: where it is moved. what: a description. rank: the rank that found it.
    """

    target: str
    what: str
    replaced: bool
    rank: int
    ids: tuple[str, ...]


def make_way(path: Path, claim: Claim) -> EarlierTrace | None:
    """Moves what a rank's earlier run left at `path`, a file in ".h5" or else a folder.

    Returns None if there was nothing. Throws OSError if something cannot be moved.
    """
    names = [""] if path.suffix == ".h5" else _old_names(path, claim)
    names = [name for name in names if os.path.lexists(path / name)]
    if not names:
        return None
    proposal = _describe(path, names, claim)
    text, is_shared = settle(f"earlier/{claim.topic}", json.dumps(vars(proposal)))
    found = _Found(**json.loads(text))
    alone = not is_shared and len(claim.ranks) > 1
    # Each rank may write to a disk of its own, on which the agreed target is already taken.
    if alone or _is_taken(Path(found.target), path, names):
        found = replace(found, target=str(_free_place(path, names, claim)))
    moved = _move(path, names, Path(found.target))
    teller = found.rank if is_shared else min(claim.ranks)
    return EarlierTrace(path, claim, found, moved, claim.rank == teller)


def set_aside(path: Path, claim: Claim) -> str | None:
    """As `make_way`, to `PATH.old`, for a run that will record nothing.

    Returns a sentence about what stood there; None if there was nothing. Throws nothing.
    """
    try:
        earlier = make_way(path, claim._replace(kind=None))
        return None if earlier is None else earlier.sentence()
    except OSError as error:
        names = [""] if path.suffix == ".h5" else [MANIFEST, rank_file(claim.rank)]
        if not any(os.path.lexists(path / name) for name in names):
            return None
        return f"what stands at {path} is of an earlier run, and cannot be moved away: {error}"


def _move(path: Path, names: list[str], target: Path) -> list[Path]:
    """Moves names in a folder, or a file with the name "", to `target`. Returns what they are now.

    Moves all of them or, if it throws OSError, none.
    """
    moved: list[str] = []
    try:
        for name in names:
            if _move_one(path / name, target / name):
                moved.append(name)
    except OSError:
        for name in moved:
            with suppress(OSError):
                os.rename(target / name, path / name)
        with suppress(OSError):
            os.rmdir(target)
        raise
    return [target / name for name in moved]


def _move_one(path: Path, target: Path) -> bool:
    """Renames a file into a folder, which it makes. Returns False if another rank has moved it."""
    for _ in range(_TRIES):
        try:
            os.rename(path, target)
            return True
        except FileNotFoundError:
            if not os.path.lexists(path):
                return False
            # A rank that has deleted its share removes the folder if nothing else is in it yet.
            target.parent.mkdir(exist_ok=True)
    raise FileNotFoundError(f"{target.parent} goes away again and again")


def _old_names(folder: Path, claim: Claim) -> list[str]:
    """The names in `folder` that are certainly of an earlier run, the manifest first: without it,
    half of a trace is no trace. Deletes what such a run had not finished."""
    try:
        present = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except PermissionError:  # a folder may be written and not read
        present = []
    old = [MANIFEST, rank_file(claim.rank)]
    for name in present:
        match = _RANK_FILE.fullmatch(name)
        if match is None or int(match[1]) in claim.ranks:
            continue
        if match[2]:
            remove_quietly(folder / name)
        else:
            old.append(name)
    return old


def _describe(path: Path, names: list[str], claim: Claim) -> _Found:
    """What stands at a path, by its manifest and the first of its files that this rank may touch:
    others may be of this run already."""
    files = [path / name for name in names[:_MOST_READ]]
    manifests = [found for found in map(manifest_in, files) if kind_of(found) is not None]
    kinds = [kind for kind in map(kind_of, manifests) if kind is not None]
    # A rank that perturbs nothing, such as a later stage of a pipeline, does not say so.
    noise = next((one.noise for one in kinds if one.noise is not None), None)
    plan = next((one.plan for one in kinds if one.plan is not None), None)
    kind = replace(kinds[0], noise=noise, plan=plan) if kinds else None
    what = "what cannot be read as a trace" if kind is None else str(kind)
    if times := _times(files):
        moment = datetime.fromtimestamp(max(times), timezone.utc)
        what += f", recorded {moment:%Y-%m-%d %H:%M} UTC"
    ids = {str(found.get("run", {}).get("id")) for found in manifests} - {"None"}
    replaced = kind is not None and claim.kind is not None and claim.kind.is_that_of(kind)
    target = str(_free_place(path, [""], claim))
    return _Found(target, what, replaced, claim.rank, tuple(sorted(ids)))


def _times(files: Iterable[Path]) -> list[float]:
    """When the files were written; another rank may move one of them away at any moment."""
    times = []
    for file in files:
        with suppress(FileNotFoundError):
            times.append(os.lstat(file).st_mtime)
    return times


def _free_place(path: Path, names: list[str], claim: Claim) -> Path:
    """The first place for an earlier trace that is not taken."""
    places = _places(path, "1" if claim.kind is not None else "old")
    return next(place for place in places if not _is_taken(place, path, names))


def _is_taken(place: Path, path: Path, names: list[str]) -> bool:
    """Whether one of `names` that is still to be moved lies there already."""
    return any(os.path.lexists(place / name) and os.path.lexists(path / name) for name in names)


def _places(path: Path, first: str) -> Iterator[Path]:
    """PATH.1, PATH.2 and so on; or PATH.old, PATH.old.1 and so on. Inside of a folder if none can
    be made beside it."""
    whole = Path(os.path.abspath(path))
    stem = str(path) if path.name not in ("", "..") else str(whole)
    if path.is_dir() and not _takes_folders_of(whole.parent, path):
        stem = str(path / _INSIDE)
    if first == "old":
        stem += ".old"
        yield Path(stem)
    yield from (Path(f"{stem}.{number}") for number in count(1))


def _takes_folders_of(beside: Path, folder: Path) -> bool:
    """Whether files can be moved from `folder` to a new one in `beside`, which holds it: not if the
    folder is a mount of its own."""
    try:
        same = os.path.samestat(os.stat(beside), os.stat(folder))
        near = os.stat(beside).st_dev == os.stat(folder).st_dev
        return near and not same and os.access(beside, os.W_OK | os.X_OK)
    except OSError:
        return False
