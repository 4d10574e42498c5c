"""A matrix over NCCL with a rank for every GPU: healthy layouts, and a fault that must be found.

Usage: python -m matrix.over_nccl [--gloo]

One GPU is enough for ddp1, fsdp1 and a pipeline of one stage, whose collectives are NCCL's all the
same; two or more cut the model as well. --gloo tries the script itself, with four ranks on the CPU.
Exits with 1 if a healthy layout is accused or the fault passes, with 3 without a GPU.
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import distributed, nn

from matrix import small
from ttrace_torch.testing import assert_equivalent


class Scaled(small.Model):
    """A model that scales a layer's output in a process group; the reference has none."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for number, layer in enumerate(self.layers):
            x = layer(x) * (1.01 if number == 0 and distributed.is_initialized() else 1.0)
        return self.head(self.norm(x))


def layouts_of(ranks: int) -> list[str]:
    words = [f"ddp{ranks}", f"fsdp{ranks}", f"pp{min(ranks, 2)}:1f1b"]
    if ranks >= 2:
        words += ["tp2", "tp2+sp"]
    if ranks >= 4:
        words.append("fsdp2+tp2")
    return words


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    ids = torch.randint(small.WORDS, (8, 2, small.LENGTH + 1))
    return [(row[:, :-1].contiguous(), row[:, 1:].contiguous()) for row in ids]


def matrix(build: type[nn.Module], layouts: list[str], backend: str) -> str:
    """The table; raises AssertionError with it unless all layouts match and hold."""
    return str(
        assert_equivalent(
            build,
            batches,
            layouts,
            loss=small.loss_of,
            parallelize=small.parallelize,
            pipeline=small.Stage,
            cache=False,
            limit=120,
            backend=backend,
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gloo", action="store_true", help="four ranks on the CPU, without NCCL")
    backend = "gloo" if parser.parse_args().gloo else "nccl"
    # As many as divide the eight micro-batches.
    ranks = max((n for n in (1, 2, 4, 8) if n <= torch.cuda.device_count()), default=0)
    if backend == "gloo":
        ranks = 4
    if not ranks:
        print("there is no GPU, and NCCL needs one")
        return 3
    layouts = layouts_of(ranks)
    try:
        print(matrix(small.Model, layouts, backend))
    except AssertionError as error:
        print(error)
        return 1
    try:
        print(matrix(Scaled, layouts[:2], backend))
    except AssertionError as error:
        print(error)
        rows = [line.split()[1:3] for line in str(error).splitlines()]
        return 0 if rows.count(["diverged", "broken"]) == 2 else 1
    print("a layer's output times 1.01 passed")
    return 1


if __name__ == "__main__":
    sys.exit(main())
