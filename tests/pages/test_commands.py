"""Every command that a page shows runs, and prints what the page says."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.python_runs import python_command
from support.ttrace_cli import ttrace_binary

from pages.blocks import Block, blocks, session
from pages.folders import PREPARED, fresh
from pages.shown import missing

# What is not run here, by a part of the block's first line: where it is.
ELSEWHERE = {
    "cmake -B build": "scripts/test.sh builds this way",
    "cmake --build build": "scripts/test.sh builds this way",
    "build/tests/ttrace_tests": "scripts/test.sh runs it",
    "scripts/build_wheel.sh": "it takes minutes; tests/README.md says how it is tried",
    "scripts/demo.sh": "README's own first step; this test runs after scripts/test.sh",
    "TTRACE_OUT=ref.h5 python train.py": "tests/by_hand trains the page's script",
    "ttrace run --candidate": "tests/e2e/test_run.py, with a script of its own",
    "ttrace run -- python train.py": "tests/e2e/test_run.py, with a script of its own",
    "ttrace audit healthy": "tests/real_size: 124 million parameters",
    "job=$(sbatch": "scripts/try_slurm.sh",
    "python -m ttrace_torch.ray": "tests/torch/test_ray.py, where Ray is installed",
    "ttrace watch run/": "tests/cli/test_watch.py, with runs that are being written",
}
# Blocks of outputs alone, by a part of the first line: the test that makes it, or the source of the
# sentence where the run behind the page is no test.
OUTPUTS = {
    "the candidate has 4 micro-batches": "tests/e2e/test_other_microbatches.py",
    "do not start from the same weights": "tests/e2e/test_other_start.py",
    "the layout of head is declared wrongly": "tests/by_hand/test_slips.py",
    "the scale of [40:48, 0:64]": "lib/localize/describe_difference.cpp",
    "error    its scale:": "lib/localize/describe_difference.cpp",
    "the input of decoder.layers.1, micro-batch 2": "tests/frameworks/hunt/megatron_rows.py",
    "tt.Layout(": "tests/by_hand/test_page.py",
    "tracer = tt.trace(": "tests/by_hand/test_suggestions.py",
    "these layouts fit the reference": "tests/by_hand/test_suggestions.py",
    "# ranges[name]: of each rank": "tests/torch/test_updates_by_hand.py",
    "a trace of many ranks": "tests/conformance",
    "parts on 2 of 3 nodes": "tests/torch/test_ray.py",
    "/step_<6 digits>": "tests/conformance",
    '{"01": [{"phase": "backward"': "tests/screens/test_grading.py",
}
SHOWN = blocks("")
SESSIONS = [block for block in SHOWN if session(block)]


def listed(block: Block, table: dict[str, str]) -> bool:
    first = block.text.splitlines()[0]
    return any(part in first for part in table)


RUN = [block for block in SESSIONS if not listed(block, ELSEWHERE)]


def test_there_are_examples():
    assert len(RUN) > 12


def test_every_block_runs_or_says_where_it_does():
    unknown = [str(block) for block in SHOWN if not session(block) and not listed(block, OUTPUTS)]
    assert not unknown, "neither commands nor in OUTPUTS"
    for table in (ELSEWHERE, OUTPUTS):
        firsts = [block.text.splitlines()[0] for block in SHOWN]
        unused = [part for part in table if not any(part in first for first in firsts)]
        assert not unused, "no page shows it any more"
    for path in OUTPUTS.values():
        assert (Path(__file__).parents[2] / path).exists(), path


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a shell that finds `ttrace`, and this Python as `python`."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "ttrace").symlink_to(ttrace_binary())
    # A link would be a Python without its packages. Scripts and modules are forked from a process
    # that has imported torch.
    (folder / "python").write_text(
        "#!/bin/sh\n"
        f'case "$1" in -m | *.py) exec {shlex.join(python_command())} "$@" ;; esac\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    (folder / "python").chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "COLUMNS": "100000",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }


@pytest.mark.parametrize("block", RUN, ids=str)
def test_it_runs_and_prints_what_the_page_shows(block, programs, tmp_path):
    commands = session(block)
    if commands[0].line.startswith("mpirun") and not shutil.which("mpirun"):
        pytest.skip("no mpirun on this machine")
    folder = fresh(tmp_path / "tiny_gpt")
    if prepare := PREPARED.get(commands[0].line.strip()):
        prepare(folder)
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command.line],
            cwd=folder,
            env=programs,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode in (0, 1, 3) or command.printed, done.stderr
        first = missing(command.printed, done.stdout + done.stderr)
        assert first is None, f"not printed: {first}\n{done.stdout}{done.stderr}"
