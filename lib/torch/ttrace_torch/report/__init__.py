"""Answers of `ttrace` in Python: reports as typed objects, and the commands that make them.

from ttrace_torch import report

answer = report.compare("ref.h5", "run/", noise=["noise1.h5", "noise2.h5", "noise3.h5"])
answer.verdict              # "match", "diverged" or "inconclusive"
answer.findings[0].headline
answer.frame()              # a pandas DataFrame, one row for each tensor
answer.plot("layers")       # matplotlib
answer                      # in a notebook: the page

Needs no torch. See docs/report.md.
"""

from ttrace_torch.report.answers import (
    AuditReport,
    CompareReport,
    LocalizeReport,
    Report,
)
from ttrace_torch.report.commands import audit, compare, localize
from ttrace_torch.report.errors import CommandFailed, ReportError
from ttrace_torch.report.parts import Cause, Check, Finding, Key, Layer, Rejected, Result, Run
from ttrace_torch.report.read import load
from ttrace_torch.report.trend import Trend, trend

__all__ = [
    "AuditReport",
    "Cause",
    "Check",
    "CommandFailed",
    "CompareReport",
    "Finding",
    "Key",
    "Layer",
    "LocalizeReport",
    "Rejected",
    "Report",
    "ReportError",
    "Result",
    "Run",
    "Trend",
    "audit",
    "compare",
    "load",
    "localize",
    "trend",
]
