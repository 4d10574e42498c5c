"""What a matrix of torchtitan needs in every layout, whatever the model: the same rows, dealt out
as the reference takes them, and one precision."""

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

# A word of a layout -> the degree of torchtitan's parallelism.
_DEGREES = {
    "ddp": "data_parallel_replicate",
    "fsdp": "data_parallel_shard",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
}
_SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}
_WORD = re.compile(r"(ddp|fsdp|tp|pp)(\d+)(?::(\w+))?")


def arguments(layout: str) -> list[str]:
    """What a script is called with that hands its argument to `train`. Throws TraceError."""
    _configure(None, layout)
    return [layout]


def train(config: Any, layout: str, std: float = 0.1, **traced: Any) -> None:
    """Trains the steps of a Trainer's config in a layout, on random rows, and records them.

    config: of torchtitan's Trainer. Changed: dataloader, tokenizer, parallelism, and float32 in
        all; checkpoints and validation are off.
    layout: such as "fsdp2+tp2"; "" is the reference. traced: arguments of `ttrace_torch.trace`.
    """
    degrees = _configure(config.parallelism, layout)
    config.parallelism.spmd_backend = "partial_dtensor"  # which tells how activations are cut
    training = config.training
    # A pipeline cuts the rows of a step into micro-batches itself.
    ranks = degrees.get("ddp", 1) * degrees.get("fsdp", 1)
    training.local_batch_size = training.global_batch_size // ranks if "pp" in degrees else 1
    training.mixed_precision_param = "float32"
    training.disable_cuda_graphs = True
    config.checkpoint.enable = config.validator.enable = False
    config.dump_folder = tempfile.mkdtemp()
    words = config.model_spec.model.vocab_size
    config.tokenizer, config.dataloader = _tokenizer(), _rows(words, training)
    trainer = config.build()
    # On the CPU torch draws the same numbers for every shard of a DTensor.
    consistent_init(model_of(trainer), std=std)
    Callback(trainer, **traced)
    trainer.train()
    trainer.close()


def _configure(parallelism: Any, layout: str) -> dict[str, int]:
    """Sets the parallelism of a layout, if one is given, and returns the degrees by word."""
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
    """None: the rows are ids already."""
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


def _rows(words: int, training: Any) -> Any:
    """Rows of random ids, of which the first data-parallel rank has the first of a step."""
    from torchtitan.components.dataloader import BaseDataLoader

    whole, length, steps = training.global_batch_size, training.seq_len, training.steps

    class Rows(BaseDataLoader):  # type: ignore[misc]
        @dataclass(kw_only=True, slots=True)
        class Config(BaseDataLoader.Config):  # type: ignore[misc]
            pass

        def __init__(
            self, config: Any, dp_world_size: int, dp_rank: int, local_batch_size: int, **_: Any
        ) -> None:
            share = whole // dp_world_size
            # Made before the first step: what a step draws would belong to it.
            self._batches = [
                _batch(range(begin, begin + local_batch_size), length, words)
                for step in range(steps)
                for first in [step * whole + dp_rank * share]
                for begin in range(first, first + share, local_batch_size)
            ]

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: Any) -> None:
            pass

        def __iter__(self) -> Iterator[Any]:
            return iter(self._batches)

    return Rows.Config()


def _batch(numbers: Sequence[int], length: int, words: int) -> tuple[dict[str, Any], torch.Tensor]:
    generators = [torch.Generator().manual_seed(number) for number in numbers]
    rows = torch.stack([torch.randint(words, (length + 1,), generator=g) for g in generators])
    return {"input": rows[:, :-1].contiguous()}, rows[:, 1:].contiguous()
