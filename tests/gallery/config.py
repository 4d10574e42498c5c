"""What a run is: the options of `train.py`, and which combinations of them make sense."""

import argparse
from dataclasses import dataclass, fields

import torch

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


class ConfigError(ValueError):
    """The options do not describe a run that can be made."""


@dataclass(frozen=True)
class Config:
    """One field per option; `--ffn-hidden 64` sets `ffn_hidden`."""

    layers: int = 2
    hidden: int = 32
    heads: int = 4
    ffn_hidden: int = 64
    sequence: int = 16
    vocabulary: int = 48
    batch: int = 2

    tp: int = 1
    sp: bool = False

    steps: int = 1
    learning_rate: float = 0.3
    momentum: float = 0.9
    clip: float = 0.0
    precision: str = "fp32"
    seed: int = 1234

    bug: tuple[str, ...] = ()
    trace: str = ""
    disturb: int = 0

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ConfigError(f"--precision {self.precision}: known are {', '.join(PRECISIONS)}")
        if self.sp and self.tp == 1:
            raise ConfigError("--sp shards the sequence over tp: it needs --tp 2 or more")
        if self.disturb and not self.trace:
            raise ConfigError("--disturb makes a noise run for the trace: it needs --trace")
        _must_divide("--heads", self.heads, "--hidden", self.hidden)
        for option, size in (
            ("--heads", self.heads),
            ("--ffn-hidden", self.ffn_hidden),
            ("--vocabulary", self.vocabulary),
        ):
            _must_divide("--tp", self.tp, option, size)
        if self.sp:
            _must_divide("--tp", self.tp, "--sequence", self.sequence)

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the parameters and activations."""
        return PRECISIONS[self.precision]

    @property
    def mesh_sizes(self) -> dict[str, int]:
        """Size of every mesh axis, the outermost first."""
        return {"tp": self.tp}

    @property
    def features(self) -> frozenset[str]:
        """The axes and mechanisms this run uses, by the names that `bugs.py` asks for."""
        switched_on = {name for name, size in self.mesh_sizes.items() if size > 1}
        if self.sp:
            switched_on.add("sp")
        return frozenset(switched_on)


def parse(arguments: list[str] | None = None) -> Config:
    """Reads the command line; a wrong one ends the process with a usage message."""
    parser = argparse.ArgumentParser(description="Train the miniature GPT.", allow_abbrev=False)
    for field in fields(Config):
        option = "--" + field.name.replace("_", "-")
        if field.type is bool:
            parser.add_argument(option, action="store_true", help=_HELP[field.name])
        elif field.name == "bug":
            parser.add_argument(option, action="append", default=[], help=_HELP[field.name])
        else:
            parser.add_argument(
                option, type=field.type, default=field.default, help=_HELP[field.name]
            )
    options = vars(parser.parse_args(arguments))
    try:
        return Config(**{**options, "bug": tuple(options["bug"])})
    except ConfigError as error:
        parser.error(str(error))


def _must_divide(divisor_name: str, divisor: int, name: str, size: int) -> None:
    if divisor < 1 or size < 1 or size % divisor != 0:
        raise ConfigError(f"{name} {size} is not divisible by {divisor_name} {divisor}")


_HELP = {
    "layers": "number of transformer layers",
    "hidden": "width of the residual stream",
    "heads": "attention heads",
    "ffn_hidden": "width inside the MLP",
    "sequence": "tokens of a sample",
    "vocabulary": "size of the vocabulary",
    "batch": "samples of a micro-batch",
    "tp": "tensor-parallel size",
    "sp": "sequence parallelism: between the tensor-parallel regions, shard the sequence over tp",
    "steps": "optimizer steps",
    "learning_rate": "learning rate of SGD",
    "momentum": "momentum of SGD",
    "clip": "clip the global gradient norm to this (0: never)",
    "precision": "fp32, or bf16 with fp32 main gradients and main parameters",
    "seed": "seed of weights and data",
    "bug": "switch a bug of bugs.py on (may be repeated)",
    "trace": "write a trace: a folder, or a file ending in .h5 where there is one process",
    "disturb": "disturb the first activation by one rounding, with this seed (0: do not)",
}
