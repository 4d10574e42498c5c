"""Specifications that are made to take all memory, all time or the stack.

Each is held against a small trace by `ttrace audit` and `ttrace localize` within --memory. A
program that ends with one of its exit codes, in time and within memory, has passed: what it says of
such a specification is no matter.

    PYTHONPATH=tests python tests/faults/hostile_specifications.py [NAME...]     prints a table
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from hostile_shapes import (
    F32,
    NORM,
    SHAPE,
    added_to_itself,
    chain,
    constant_leaves,
    document,
    doubled,
    every_tensor_deep,
    expanded,
    fibonacci,
    huge_attention,
    huge_product,
    literals,
    long_array,
    long_lists,
    made,
    many_dimensions,
    many_given,
    many_patterns,
    names_of_one,
    nested,
    node,
    one,
    opaque_chain,
    outer,
    padded,
    products,
    sum_of_constants,
    table,
    tail,
    tensor,
    tensors_of_two,
    used_wide,
    wide,
    with_number,
)
from support.measured import Measured, run_measured
from support.ttrace_cli import TESTDATA

TRACE = TESTDATA / "ref.h5"
MEMORY = 256 << 20
# Of the program and its libraries, of the trace's manifest, and of what is not worth counting.
PROGRAM = 64 << 20
SECONDS = 120

MILLION = 1_000_000
BILLION = 10**9

SHAPES: dict[str, Callable[[], str]] = {
    "added to itself, 30 times": lambda: added_to_itself(30),
    "added to itself, 2,000 times": lambda: added_to_itself(2_000),
    "added to itself, 20,000 times": lambda: added_to_itself(20_000),
    "added to itself, 99,999 times": lambda: added_to_itself(99_999),
    "subtracted from itself": lambda: chain(40_000, lambda i: node("subtract", [i, i])),
    "sums of the two before": lambda: fibonacci(90),
    "sums of the two before, 50,000": lambda: fibonacci(50_000),
    "a chain of 40,000 sums": lambda: chain(40_000, lambda i: node("add", [i, 0])),
    "a chain of 99,999 negations": lambda: chain(99_999, lambda i: node("negate", [i])),
    "a chain of a million": lambda: chain(MILLION, lambda i: node("negate", [i])),
    "a chain of reshapes": lambda: chain(50_000, lambda i: node("reshape", [i])),
    "a chain of transposes": lambda: one(
        [node("reshape", [0], [32, 16])]
        + [
            node("permute", [1 + i], [[16, 32], [32, 16]][i % 2], dims=[1, 0])
            for i in range(50_000)
        ]
        + [node("reshape", [50_001])]
    ),
    "a chain of casts": lambda: chain(
        50_000, lambda i: ["cast", [i], {}, ["bfloat16", F32][i % 2], SHAPE]
    ),
    "a chain of maxima": lambda: chain(50_000, lambda i: node("maximum", [i, 0])),
    "4,096 products": lambda: products(4_096, False),
    "4,097 products": lambda: products(4_097, False),
    "30,000 products": lambda: products(30_000, False),
    "4,000 products of computed factors": lambda: products(4_000, True),
    "a sum of 49,000 constants": lambda: sum_of_constants(49_000),
    "a node of a million arguments": lambda: wide(MILLION),
    "a node of 1,000 arguments in 9,000 tensors": lambda: used_wide(1_000, 9_000),
    "joined with itself, 20 times": lambda: doubled(20, False),
    "joined with itself, 40 times": lambda: doubled(40, False),
    "joined with itself, 40 times, extents open": lambda: doubled(40, True),
    "outer sums, extents open": lambda: outer(3),
    "expanded to 10^9 elements": lambda: expanded([BILLION]),
    "expanded to 10^12 elements": lambda: expanded([MILLION, MILLION]),
    "expanded beyond 2^64": lambda: expanded([2**40, 2**40]),
    "a constant of 10^12 elements": lambda: made("full", [MILLION, MILLION], [], value=1.0),
    "10^10 numbers in a row": lambda: made("arange", [10 * BILLION], [], start=0, step=1),
    "a place of 10^10 elements": lambda: made(
        "place", [BILLION, 2, 16], [0], dim=0, start=0, stop=16, step=1
    ),
    "10^11 classes": lambda: one(
        [
            ["arange", [], {"start": 0, "step": 1}, "int64", [16]],
            ["one_hot", [1], {"classes": 10**11}, "int64", [16, 10**11]],
            *tail([16, 10**11], 2),
        ]
    ),
    "gradient of a table of 10^10 rows": lambda: one(
        [
            ["arange", [], {"start": 0, "step": 1}, "int64", [16, 2]],
            node("embedding_grad", [0, 1], [10 * BILLION, 16], rows=10 * BILLION, padding=-1),
            *tail([10 * BILLION, 16], 2),
        ]
    ),
    "indices that are out of range": lambda: table("index_rows", SHAPE, [0, 1], dim=1),
    "a product of 10^12 elements": lambda: huge_product(MILLION),
    "attention over 10^7 tokens": lambda: huge_attention(10_000_000),
    "a running sum of 10^9": lambda: one(
        [
            node("full", [], [BILLION], value=1.0),
            node("cumsum", [1], [BILLION], dim=0),
            *tail([BILLION], 2),
        ]
    ),
    "a list sorted, 10^9 items": lambda: one(
        [
            node("full", [], [BILLION], value=1.0),
            node("sort_values", [1], [BILLION], dim=0, descending=False),
            *tail([BILLION], 2),
        ]
    ),
    "references to 64 dimensions": lambda: many_dimensions(900_000),
    "long lists of references": lambda: long_lists(30, 900_000),
    "a million names of one value": lambda: names_of_one(999_000, False),
    "a million names, each of the one before": lambda: names_of_one(999_000, True),
    "a million parameters": lambda: many_given(999_000),
    "1,000 patterns of 1,000 nodes": lambda: many_patterns(1_000, 1_000),
    "20,000 tensors, each of the two before": lambda: tensors_of_two(20_000),
    "90,000 tensors, each of the two before": lambda: tensors_of_two(90_000),
    "900,000 tensors, each of the two before": lambda: tensors_of_two(900_000),
    "900,000 opaque tensors": lambda: opaque_chain(900_000),
    "45,000 constants, each cast": lambda: constant_leaves(45_000),
    "3,000 lists of 4,096 numbers": lambda: literals(3_000),
    "every tensor 50,000 operations deep": lambda: every_tensor_deep(50_000),
    "lists nested a million deep": lambda: nested(MILLION),
    "64 MiB of spaces": lambda: padded(added_to_itself(30), 64 << 20),
    "64 MiB of empty lists": lambda: long_array("[]", 64 << 20),
    "64 MiB of digits": lambda: long_array("1" * 1000, 64 << 20),
    "64 MiB of one name": lambda: document([], [tensor("input", "n" * (64 << 20))]),
    "64 MiB of one key": lambda: '{"' + "k" * (64 << 20) + '":1}',
    "64 MiB of one operation": lambda: chain(1, lambda i: node("o" * (64 << 20), [i])),
    "64 MiB of one kind": lambda: document([], [tensor("k" * (64 << 20), NORM)]),
    "an extent of 1e999": lambda: with_number("1e999"),
    "a negative extent": lambda: with_number("-2"),
    "an extent of 2^64": lambda: with_number(str(2**64)),
}

# Enough for every change: some of each kind, in less than half a minute.
SAMPLE = (
    "added to itself, 30 times",
    "added to itself, 20,000 times",
    "sums of the two before",
    "a chain of 40,000 sums",
    "4,097 products",
    "4,000 products of computed factors",
    "a node of 1,000 arguments in 9,000 tensors",
    "joined with itself, 40 times, extents open",
    "outer sums, extents open",
    "expanded beyond 2^64",
    "10^11 classes",
    "references to 64 dimensions",
    "20,000 tensors, each of the two before",
    "45,000 constants, each cast",
    "lists nested a million deep",
)

COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "audit": ("audit", TRACE),
    "localize": ("localize", TRACE, TESTDATA / "tp2sp", "--all-layers"),
}


def write(name: str, folder: Path) -> Path:
    path = folder / "hostile.json"
    path.write_text(SHAPES[name](), encoding="utf-8")
    return path


def tried(command: str, specification: Path, memory: int = MEMORY) -> Measured:
    flags = ("--specification", specification, "--memory", str(memory))
    return run_measured(*COMMANDS[command], *flags, timeout=SECONDS)


def fault(done: Measured, memory: int = MEMORY) -> str:
    """What is wrong with how it ended, or nothing."""
    if done.exit_code is None:
        return f"it did not end in {SECONDS} s"
    if done.exit_code not in (0, 1, 2, 3) or "signal" in done.errors or "internal" in done.errors:
        return f"it crashed: {done.exit_code}, {done.errors.strip()[-200:]}"
    if done.exit_code == 2 and (len(done.errors.strip().splitlines()) != 1):
        return f"its refusal is not one sentence: {done.errors.strip()[:200]}"
    if done.peak > memory + PROGRAM:
        return f"it took {done.peak >> 20} MiB, {memory >> 20} are allowed"
    return ""


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="shapes to try (default: all)")
    parser.add_argument("--memory", type=int, default=MEMORY >> 20, help="in MiB")
    options = parser.parse_args(list(arguments))
    names, memory = options.names or list(SHAPES), options.memory << 20
    faults = 0
    print(
        "| specification | command | exit code | seconds | MiB | fault |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            specification = write(name, Path(folder))
            for command in ("audit", "localize"):
                done = tried(command, specification, memory)
                wrong = fault(done, memory)
                faults += bool(wrong)
                cells = [
                    name,
                    command,
                    done.exit_code,
                    f"{done.seconds:.1f}",
                    done.peak >> 20,
                    wrong,
                ]
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"\n{len(names)} specifications, {2 * len(names)} runs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
