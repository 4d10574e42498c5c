"""The answers of `compare`, `audit` and `localize`."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from ttrace_torch.report.errors import CommandFailed, ReportError
from ttrace_torch.report.frame import frame_of_findings, frame_of_results
from ttrace_torch.report.members import many, member, named, part, raw, table, text, whole
from ttrace_torch.report.parts import Finding, Group, Layer, Result, Run, Suspect
from ttrace_torch.report.plots import plot_results
from ttrace_torch.report.show import page_in_frame, shown_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True)
class Report:
    """What all answers have.

    verdict: a word of the command, such as "match", "holds", "diverged"; exit_code: what the
    command ended with, 0 where all is well. findings: what is wrong, the first of the step first,
    one for each sentence. results: the tensors. name, data: of the file, and its bytes.
    It prints as the text report, and in a notebook as the page, both by `ttrace report show`.
    """

    read_schema: ClassVar[str]
    command: ClassVar[str]

    schema: str = member(text)
    verdict: str = member(text)
    exit_code: int = member(whole)
    environment: Mapping[str, Any] = member(table)
    headline: str = member(text)
    why: str = member(text, default="")
    besides: str = member(text, default="")
    warnings: tuple[str, ...] = member(many(text), default=())
    detail: str = member(text, default="all")
    findings: tuple[Finding, ...] = member(many(part(Finding)), default=())
    results: tuple[Result, ...] = member(many(part(Result)), default=())
    json: Mapping[str, Any] = raw()
    name: str = field(default="report.json", repr=False, compare=False)
    data: bytes = field(default=b"", repr=False, compare=False)

    @cached_property
    def by_id(self) -> Mapping[str, Result]:
        """The tensors by their ids, by which findings and groups name them."""
        return {one.id: one for one in self.results}

    def show(self, format: str = "text") -> str:
        """The report as "text", its first "line", "markdown", "junit", "html" or "json"."""
        return shown_text(self.name, self.data, format)

    def frame(self) -> DataFrame:
        """One row for each tensor, by id; for `localize`, which lists no tensors, one for each
        finding."""
        if self.command == "localize":
            return frame_of_findings(self.findings)
        return frame_of_results(self.results)

    def plot(self, what: str = "profile", axes: Axes | None = None) -> Axes:
        """How much of what they are allowed tensors used, by matplotlib.

        what: "profile" (along the step), "layers", "steps" or "histogram".
        """
        if self.detail == "findings" or self.command == "localize":
            way = "plot the report of compare or audit, made without --json-detail"
            raise ReportError(f"{self.name} has no numbers of what is not a finding; {way}")
        return plot_results(self.results, what, axes, f"{self.command}: {self.verdict}")

    def __str__(self) -> str:
        try:
            return self.show().rstrip("\n")
        except CommandFailed as error:
            return f"{self.verdict.upper()}  {self.headline}\n  more     {error}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.verdict}, {self.headline}>"

    def _repr_html_(self) -> str:
        try:
            return page_in_frame(self.show("html"), f"ttrace {self.command}: {self.verdict}")
        except CommandFailed:
            return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True, repr=False)
class CompareReport(Report):
    """`ttrace compare`, schemas/answer-v1.md. frontier: every finding; groups: those alike."""

    command = "compare"

    reference: Run = member(part(Run))
    candidate: Run = member(part(Run))
    counts: Mapping[str, int] = member(named(whole), default=dict)
    coverage: Mapping[str, Any] = member(table)
    frontier: tuple[Finding, ...] = member(many(part(Finding)), "findings", default=())
    groups: tuple[Group, ...] = member(many(part(Group)), default=())
    suspects: tuple[Suspect, ...] = member(many(part(Suspect)), default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "findings", tuple(_sentences(self.frontier, self.groups)))


def _sentences(frontier: Sequence[Finding], groups: Sequence[Group]) -> Iterator[Finding]:
    """Yields one finding for all that are alike: the one that is shown, with the keys of all."""
    group_of = {one.id: one for one in groups}
    finding_of = {one.id: one for one in frontier}
    for one in frontier:
        group = group_of.get(one.group)
        if group is None:
            yield one
        elif group.findings[:1] == (one.id,):
            shown = finding_of.get(group.shown, one)
            yield replace(shown, keys=group.findings, headline=group.headline, title=group.title)


@dataclass(frozen=True, repr=False)
class AuditReport(Report):
    """`ttrace audit`, schemas/answer-v1.md."""

    command = "audit"

    run: Run = member(part(Run))
    specification: str = member(text, default="")
    coverage: Mapping[str, Any] = member(table)


@dataclass(frozen=True, repr=False)
class LocalizeReport(Report):
    """`ttrace localize`, schemas/answer-v1.md. It lists findings and no tensors."""

    command = "localize"

    reference: Run = member(part(Run))
    candidate: Run = member(part(Run))
    suspects: tuple[Suspect, ...] = member(many(part(Suspect)), default=())
    layers: tuple[Layer, ...] = member(many(part(Layer)), default=())
