"""Ways to make `ttrace audit` say HOLDS of a wrong run, each with several variants.

A mechanism makes a check trivial, hides a tensor from it, or forges what it is held against. Every
variant has a fault that the audit finds where nobody lies (`honest`), and must not end with exit
code 0. Some mechanisms leave so much judged that 0 is right by the rules (fewer than a tenth of the
gradients, a single output): of those (`SAID`) the first line must tell what was not checked.

    PYTHONPATH=tests python tests/faults/audit_lies.py [MECHANISM...]     prints a table
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from faults_of_step import Fault
from mechanisms import mechanisms
from small_step import Run
from support.ttrace_cli import run_ttrace
from variants import Variant


@dataclass(frozen=True)
class Told:
    exit_code: int
    first_line: str


def audited(run: Run, folder: Path, *flags: str) -> Told:
    trace, specification = run.write(folder)
    done = run_ttrace("audit", trace, "--specification", specification, *flags)
    text = done.stdout or done.stderr
    return Told(done.returncode, text.splitlines()[0] if text else "")


def tried(variant: Variant, folder: Path) -> Told:
    run = variant.fault.run()
    variant.lie(run)
    return audited(run, folder)


def honest(fault: Fault, folder: Path) -> Told:
    return audited(fault.run(), folder)


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="MECHANISM", help="those to try (default: all)")
    wanted = parser.parse_args(list(arguments)).names
    false, variants = 0, 0
    found = {name: of for name, of in mechanisms().items() if not wanted or name in wanted}
    print(
        "| mechanism | variants | exit 1 | exit 2 | exit 3 | false exit 0 |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, of in found.items():
            codes = []
            for variant in of:
                told = tried(variant, Path(folder))
                codes.append(told.exit_code)
                if told.exit_code == 0:
                    print(f"FALSE: {name}: {variant.name}: {told.first_line}", file=sys.stderr)
            counts = [str(codes.count(code)) for code in (1, 2, 3, 0)]
            print(f"| {name} | {len(of)} | " + " | ".join(counts) + " |", flush=True)
            false += codes.count(0)
            variants += len(of)
    print(f"\n{len(found)} mechanisms, {variants} variants, {false} false exit codes 0")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
