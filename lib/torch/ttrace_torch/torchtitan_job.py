"""Trains a torchtitan model in one layout of a matrix (see docs/matrix.md).

Whatever the model, every layout gets the same rows, dealt out in the reference's order, and
computes in float32."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ttrace_torch.api import consistent_init
from ttrace_torch.errors import TraceError
from ttrace_torch.torchtitan import Callback, model_of

# A word of a layout -> the name of torchtitan's parallel degree, without "_degree".
_DEGREES = {
    "ddp": "data_parallel_replicate",
    "fsdp": "data_parallel_shard",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
}
_SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}
_WORD = re.compile(r"(ddp|fsdp|tp|pp)(\d+)(?::(\w+))?")


def arguments(layout: str) -> list[str]:
    """The command-line arguments for a script that passes its only argument to `train` as `layout`.

    Throws TraceError for an unknown layout.
    """
    _configure(None, layout)
    return [layout]


def train(config: Any, layout: str, std: float = 0.1, **traced: Any) -> None:
    """Trains the steps of a Trainer's config in a layout, on random rows, and records them.

    config: the config of torchtitan's Trainer. It is changed: its dataloader, tokenizer,
    parallelism
        and micro-batch size are replaced, it computes in float32, and checkpoints and validation
        are switched off.
    layout: such as "fsdp2+tp2"; "" is the reference.
    std: standard deviation of the initial weights.
    traced: arguments of `ttrace_torch.trace`.
    """
    degrees = _configure(config.parallelism, layout)
    # Other backends do not tell how activations are cut under tensor parallelism.
    config.parallelism.spmd_backend = "partial_dtensor"
    training = config.training
    # A pipeline cuts the rows of a step into micro-batches itself.
    ranks = degrees.get("ddp", 1) * degrees.get("fsdp", 1)
    training.local_batch_size = training.global_batch_size // ranks if "pp" in degrees else 1
    training.mixed_precision_param = "float32"
    training.disable_cuda_graphs = True
    config.checkpoint.enable = config.validator.enable = False
    config.dump_folder = tempfile.mkdtemp()
    vocabulary = config.model_spec.model.vocab_size
    config.tokenizer, config.dataloader = _tokenizer(), _rows(vocabulary, training)
    trainer = config.build()
    # torchtitan's own initialisation will not do: on the CPU, torch draws the same numbers for
    # every shard of a DTensor.
    consistent_init(model_of(trainer), std=std)
    Callback(trainer, **traced)
    trainer.train()
    trainer.close()


def _configure(parallelism: Any, layout: str) -> dict[str, int]:
    """Returns the degrees of a layout by word: {"fsdp": 2, "tp": 2}, and sets them in `parallelism`
    unless it is None. Throws TraceError for an unknown layout."""
    words = [word for word in layout.split("+") if word]
    found = [_WORD.fullmatch(word) for word in words if word != "sp"]
    schedules = {match[3] for match in found if match and match[3]}
    if not all(found) or not schedules <= set(_SCHEDULES):
        raise TraceError(
            f"layouts: {layout!r} is not made of ddpN, fsdpN, tpN, sp and ppN, ppN:1f1b, ppN:gpipe "
            "or ppN:interleaved, which torchtitan_job makes; set other degrees in a script of your "
            "own"
        )
    degrees = {match[1]: int(match[2]) for match in found if match}
    if parallelism is not None:
        for word, size in degrees.items():
            setattr(parallelism, f"{_DEGREES[word]}_degree", size)
        parallelism.enable_sequence_parallel = "sp" in words
        for schedule in schedules:
            parallelism.pipeline_parallel_schedule = _SCHEDULES[schedule]
    return degrees


def _tokenizer() -> Any:
    """The config of a tokenizer that encodes nothing, since the rows are token ids already."""
    from torchtitan.components.tokenizer import BaseTokenizer

    class NoTokenizer(BaseTokenizer):  # type: ignore[misc]
        @dataclass(kw_only=True, slots=True)
        class Config(BaseTokenizer.Config):  # type: ignore[misc]
            pass

        def __init__(self, config: Any, **_: Any) -> None:
            super().__init__()

        def encode(self, *_: Any, **__: Any) -> Any:
            raise TypeError("the rows of a matrix are token ids: nothing is to be encoded")

        decode = get_vocab_size = encode

    return NoTokenizer.Config()


def _rows(vocabulary: int, training: Any) -> Any:
    """The config of a dataloader of random token ids. The rows of a step are dealt out in blocks:
    the first block to the first data-parallel rank."""
    from torchtitan.components.dataloader import BaseDataLoader

    per_step, length, steps = training.global_batch_size, training.seq_len, training.steps

    class Rows(BaseDataLoader):  # type: ignore[misc]
        @dataclass(kw_only=True, slots=True)
        class Config(BaseDataLoader.Config):  # type: ignore[misc]
            pass

        def __init__(
            self, config: Any, dp_world_size: int, dp_rank: int, local_batch_size: int, **_: Any
        ) -> None:
            share = per_step // dp_world_size
            # Made before the first step: random numbers drawn inside a step would be traced with
            # it.
            self._batches = [
                _batch(range(begin, begin + local_batch_size), length, vocabulary)
                for step in range(steps)
                for first in [step * per_step + dp_rank * share]
                for begin in range(first, first + share, local_batch_size)
            ]

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: Any) -> None:
            pass

        def __iter__(self) -> Iterator[Any]:
            return iter(self._batches)

    return Rows.Config()


def _batch(
    numbers: Sequence[int], length: int, vocabulary: int
) -> tuple[dict[str, Any], torch.Tensor]:
    """Input and labels of the rows with these numbers. A row's ids depend on its number alone."""
    generators = [torch.Generator().manual_seed(number) for number in numbers]
    rows = torch.stack([torch.randint(vocabulary, (length + 1,), generator=g) for g in generators])
    return {"input": rows[:, :-1].contiguous()}, rows[:, 1:].contiguous()
