"""Lets tests import what they share: `support`, `gallery`; says what was left out; puts what trains
first, because whoever starts a long file last waits for it alone."""

import gc
import importlib
import os
import sys
from pathlib import Path

import pytest

# A fork never collects what its parent left to the garbage collector. A process group of gloo that
# is destroyed joins its threads, which a fork has not: it would wait for ever, or abort.
os.register_at_fork(after_in_child=gc.freeze)
sys.path.insert(0, str(Path(__file__).parent))
MEGATRON = ("tests/frameworks/test_megatron", "tests/frameworks/test_specified_models.py")
MINIATURE = ("tests/gallery/test_parity.py", "tests/gallery/test_traces.py")
# Folders; the others come after them.
SLOWEST_FIRST = ["frameworks", "zoo", "gallery", "power", "torch"]


def pytest_collection_modifyitems(items):
    def place(item):
        folder = Path(item.path).parent.name
        return SLOWEST_FIRST.index(folder) if folder in SLOWEST_FIRST else len(SLOWEST_FIRST)

    items.sort(key=place)


def pytest_collection_finish():
    if "torch" in sys.modules:
        importlib.import_module("torch._dynamo")  # the first optimizer would
    _hide_what_is_there()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown():
    """What a test imports stays for all tests behind it."""
    yield
    if "torch" in sys.modules:
        _hide_what_is_there()


def _hide_what_is_there():
    """From the garbage collector: ttrace_torch looks at all objects that it knows of in each traced
    step, which takes longer than a small step."""
    gc.collect()
    if "triton" not in sys.modules:  # which complains of objects that are left when a program ends
        gc.freeze()


def _left_out() -> list[str]:
    long_cases = sys.modules.get("support.long_cases")  # if a test that has any was collected
    return long_cases.told() if long_cases else []


def pytest_sessionfinish(session):
    # Where tests run side by side (pytest-xdist), each process tells the one that reports.
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = _left_out()


def _trains(nodeid: str) -> str:
    """The files of one name train once if one process runs them."""
    file = nodeid.split("::", 1)[0]
    if file in MINIATURE:
        return MINIATURE[0]
    return "megatron" if file.startswith(MEGATRON) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _trains(nodeid)

    return Scheduling(config, log)


class _SideBySide:
    left_out: list[str] = []

    def pytest_testnodedown(self, node, error):
        # All processes collect the same.
        self.left_out = getattr(node, "workeroutput", {}).get("left_out") or self.left_out


def pytest_configure(config):
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SideBySide(), "side_by_side")


def pytest_terminal_summary(terminalreporter, config):
    skipped = terminalreporter.stats.get("skipped", [])
    if any(report.nodeid.startswith("tests/page/") for report in skipped):
        terminalreporter.line("skipped: tests/page, the page in a browser: no Chromium or Chrome")
    side_by_side = config.pluginmanager.get_plugin("side_by_side")
    for line in side_by_side.left_out if side_by_side else _left_out():
        terminalreporter.line(line)
