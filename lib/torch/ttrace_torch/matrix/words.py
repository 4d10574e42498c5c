"""The words of layouts: "ddp2", "fsdp4", "fsdp2+tp2", "tp2+sp", "pp2:1f1b"."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ttrace_torch.matrix.errors import MatrixError

# Name in a word -> class in torch.distributed.pipelining, and whether a rank has several stages.
SCHEDULES = {
    "gpipe": ("ScheduleGPipe", False),
    "1f1b": ("Schedule1F1B", False),
    "interleaved": ("ScheduleInterleaved1F1B", True),
    "zero_bubble": ("ScheduleInterleavedZeroBubble", True),
}
_EXAMPLES = "ddp2, fsdp4, tp2, tp2+sp, fsdp2+tp2, pp2:1f1b"
_PART = re.compile(r"(?P<name>[a-z_]+?)(?P<size>\d*)(:(?P<schedule>\w+))?")
_NAMES = ("ddp", "fsdp", "tp", "sp", "pp", "cp", "ep")


@dataclass(frozen=True)
class Word:
    """How one run is laid out over ranks.

    text: the word as the user wrote it.
    data: "ddp", "fsdp", or "" without data parallelism over `dp` ranks.
    sequence: whether activations between tensor-parallel layers are cut along the sequence.
    schedule: of the pipeline, a key of SCHEDULES; "" without one.
    cp, ep: ranks of context and of expert parallelism, which see the same samples.
    """

    text: str
    data: str = ""
    dp: int = 1
    tp: int = 1
    sequence: bool = False
    pp: int = 1
    schedule: str = ""
    cp: int = 1
    ep: int = 1

    @property
    def ranks(self) -> int:
        return self.dp * self.tp * self.pp * self.cp * self.ep

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The axes that only the user's function can cut."""
        return tuple(axis for axis in ("cp", "ep") if getattr(self, axis) > 1)

    @property
    def axes(self) -> dict[str, int]:
        """The axes of the device mesh, the slowest first."""
        sizes = {"pp": self.pp, "dp": self.dp, "cp": self.cp, "ep": self.ep, "tp": self.tp}
        named = {axis: size > 1 for axis, size in sizes.items()}
        named.update(pp=bool(self.schedule), dp=bool(self.data))
        return {axis: size for axis, size in sizes.items() if named[axis]}

    @property
    def stages(self) -> int:
        """How many stages a pipeline has, over all ranks."""
        return self.pp * (2 if self.schedule and SCHEDULES[self.schedule][1] else 1)


def read_word(text: str) -> Word:
    """Throws MatrixError for what is no layout, with the nearest word that is one."""
    parts: dict[str, tuple[int, str]] = {}
    for part in str(text).strip().split("+"):
        match = _PART.fullmatch(part.strip())
        name = match["name"] if match else part
        if match is None or name not in _NAMES:
            raise MatrixError(
                f"layouts: {text!r} is no layout: {part!r} is none of ddpN, fsdpN, tpN, sp, cpN, "
                f"epN and ppN:SCHEDULE{_nearest(name)}; examples are {_EXAMPLES}"
            )
        if name in parts:
            raise MatrixError(f"layouts: {text!r} says {name} twice")
        parts[name] = _size(text, match), match["schedule"] or ""
    return _word(str(text).strip(), parts)


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, _NAMES, n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""


def _size(text: str, match: re.Match[str]) -> int:
    name, size = match["name"], match["size"]
    if name == "sp":
        if size:
            raise MatrixError(f"layouts: {text!r}: sp has the ranks of tp; write tp{size}+sp")
        return 1
    if not size or int(size) < 1:
        raise MatrixError(f"layouts: {text!r}: {name} needs a number of ranks, such as {name}2")
    if match["schedule"] and name != "pp":
        raise MatrixError(f"layouts: {text!r}: only pp has a schedule, such as pp2:1f1b")
    return int(size)


def _word(text: str, parts: dict[str, tuple[int, str]]) -> Word:
    if "ddp" in parts and "fsdp" in parts:
        raise MatrixError(f"layouts: {text!r} has ddp and fsdp; samples are dealt out by one")
    data = next((name for name in ("ddp", "fsdp") if name in parts), "")
    pp, schedule = parts.get("pp", (1, ""))
    if "pp" in parts and schedule not in SCHEDULES:
        near = difflib.get_close_matches(schedule, SCHEDULES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise MatrixError(
            f"layouts: {text!r}: the schedule of pp is one of {', '.join(SCHEDULES)}{hint}; "
            f"write pp{pp}:1f1b"
        )
    if "sp" in parts and "tp" not in parts:
        raise MatrixError(f"layouts: {text!r}: sp cuts what tp leaves whole; write tp2+sp")
    if data == "ddp" and ("tp" in parts or "pp" in parts):
        other = "tp" if "tp" in parts else "pp"
        raise MatrixError(
            f"layouts: {text!r}: DistributedDataParallel takes no part of a model that {other} has "
            f"cut; write fsdp{parts['ddp'][0]} in its place"
        )
    if "pp" in parts and ("cp" in parts or "ep" in parts):
        other = "cp" if "cp" in parts else "ep"
        raise MatrixError(
            f"layouts: {text!r}: a matrix cuts no stages over {other}; run a trainer that does, as "
            "a script and its arguments"
        )
    return Word(
        text,
        data,
        parts[data][0] if data else 1,
        parts.get("tp", (1, ""))[0],
        "sp" in parts,
        pp,
        schedule,
        parts.get("cp", (1, ""))[0],
        parts.get("ep", (1, ""))[0],
    )


def read_words(
    texts: Iterable[str], batches: int, most_ranks: int | None, cores: int
) -> list[Word]:
    """The layouts of a matrix. Throws MatrixError with every one that cannot be run here.

    batches: micro-batches of a step.
    most_ranks: the largest number of processes to start; by default what `cores` bear.
    """
    bound = max(8, 2 * cores) if most_ranks is None else most_ranks
    words, problems = [], []
    for text in [texts] if isinstance(texts, str) else list(texts):
        try:
            word = read_word(text)
        except MatrixError as error:
            problems.append(str(error))
            continue
        words.append(word)
        if word.ranks > bound:
            problems.append(
                f"layouts: {word.text!r} needs {word.ranks} processes, and this machine of {cores} "
                f"core(s) gets at most {bound}; take a smaller layout, or say "
                f"most_ranks={word.ranks}"
            )
        if batches % word.dp:
            problems.append(
                f"batches: {batches} micro-batch(es) do not divide by the {word.dp} data-parallel "
                f"ranks of {word.text!r}; give a multiple of {word.dp}"
            )
    if not words and not problems:
        problems.append(f"layouts: give at least one, such as {_EXAMPLES}")
    twice = sorted({w.text for w in words if [v.text for v in words].count(w.text) > 1})
    problems.extend(f"layouts: {text!r} is there twice" for text in twice)
    if problems:
        raise MatrixError("\n".join(problems))
    return words
