"""What a run is: the options of `train.py`, and which combinations of them make sense."""

import argparse
import math
from dataclasses import dataclass, fields

import torch

PRECISIONS = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.bfloat16,
}

OPTIMIZERS = ("sgd", "adamw")
# Options that are features of a run by their own name.
_SWITCHES = (
    "sp",
    "zero",
    "recompute",
    "multi_query",
    "padding",
    "packed",
    "expert_tp",
    "delayed_scaling",
)


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
    experts: int = 0
    top_k: int = 1
    multi_query: bool = False
    dropout: float = 0.0
    padding: bool = False
    freeze: str = ""

    microbatches: int = 1
    pp: int = 1
    vpp: int = 1
    dp: int = 1
    cp: int = 1
    tp: int = 1
    sp: bool = False

    ep: int = 1
    expert_tp: bool = False
    zero: bool = False
    packed: bool = False
    recompute: bool = False

    steps: int = 1
    optimizer: str = "sgd"
    learning_rate: float = 0.3
    weight_decay: float = 0.01
    momentum: float = 0.9
    clip: float = 0.0
    precision: str = "fp32"
    loss_scale: float = 0.0
    delayed_scaling: bool = False
    seed: int = 1234

    bug: tuple[str, ...] = ()
    trace: str = ""
    perturb: int = 0

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ConfigError(f"--precision {self.precision}: known are {', '.join(PRECISIONS)}")
        if self.loss_scale < 0:
            raise ConfigError(f"--loss-scale {self.loss_scale}: a scale is not negative")
        if self.delayed_scaling and self.precision != "fp8":
            raise ConfigError("--delayed-scaling is of FP8: it needs --precision fp8")
        if self.optimizer not in OPTIMIZERS:
            raise ConfigError(f"--optimizer {self.optimizer}: known are {', '.join(OPTIMIZERS)}")
        if self.zero and self.dp == 1:
            raise ConfigError("--zero cuts gradients and state over dp: it needs --dp 2 or more")
        if self.sp and self.tp == 1:
            raise ConfigError("--sp shards the sequence over tp: it needs --tp 2 or more")
        if self.perturb and not self.trace:
            raise ConfigError("--perturb makes a noise run for the trace: it needs --trace")
        _must_divide("--heads", self.heads, "--hidden", self.hidden)
        for option, size in (
            ("--heads", self.heads),
            ("--ffn-hidden", self.ffn_hidden),
            ("--vocabulary", self.vocabulary),
        ):
            _must_divide("--tp", self.tp, option, size)
        _must_divide("--dp", self.dp, "--microbatches", self.microbatches)
        self._check_experts()
        self._check_model()
        if not 1 <= self.pp <= self.layers:
            raise ConfigError(f"--pp {self.pp}: each of the --layers {self.layers} has one stage")
        if self.cp != 1:
            _must_divide("twice --cp", 2 * self.cp, "--sequence", self.sequence)
        if self.sp:
            part = "--sequence" if self.cp == 1 else "--cp's part of --sequence"
            _must_divide("--tp", self.tp, part, self.sequence // self.cp)

    def _check_experts(self) -> None:
        if self.experts == 0:
            if self.ep != 1:
                raise ConfigError("--ep cuts experts: it needs --experts")
            return
        _must_divide("--ep", self.ep, "--experts", self.experts)
        inner = self.dp * self.cp * self.tp
        _must_divide("--ep", self.ep, "--dp times --cp times --tp", inner)
        if not 1 <= self.top_k <= self.experts:
            raise ConfigError(f"--top-k {self.top_k}: there are --experts {self.experts}")
        if self.expert_tp and (self.sp or self.ep > 1):
            raise ConfigError(
                "--expert-tp cuts every expert over tp: it goes without --sp and --ep"
            )
        if self.tp > 1 and not (self.sp or self.expert_tp or self.ep == self.tp):
            raise ConfigError("--experts with --tp needs --sp: each rank routes its own tokens")
        if self.zero:
            raise ConfigError("--zero with --experts: buckets of experts are not made")
        if self.precision == "fp8":
            raise ConfigError("--precision fp8 with --experts: their products are not emulated")

    def _check_model(self) -> None:
        if self.multi_query and (self.sp or self.precision == "fp8"):
            raise ConfigError("--multi-query goes without --sp and --precision fp8")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"--dropout {self.dropout}: this is a probability less than 1")
        if self.packed and (not self.zero or self.pp == 1 or self.steps > 1):
            raise ConfigError("--packed needs --zero, --pp 2 or more, and --steps 1")
        if self.vpp > 1:
            if self.pp == 1 or self.recompute:
                raise ConfigError("--vpp needs --pp 2 or more, and goes without --recompute")
            _must_divide("--pp times --vpp", self.pp * self.vpp, "--layers", self.layers)

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the parameters and activations."""
        return PRECISIONS[self.precision]

    @property
    def scale_of_loss(self) -> float:
        """What the loss is multiplied by before its backward. A power of two rounds nothing."""
        return self.loss_scale or (1024.0 if self.precision == "fp16" else 1.0)

    @property
    def mesh_sizes(self) -> dict[str, int]:
        """Size of every mesh axis, the outermost first."""
        return {"pp": self.pp, "dp": self.dp, "cp": self.cp, "tp": self.tp}

    @property
    def expert_mesh_sizes(self) -> dict[str, int]:
        """Size of every axis of the experts' mesh, over the same ranks."""
        inner = self.dp * self.cp * self.tp
        return {"pp": self.pp, "edp": inner // self.ep, "ep": self.ep}

    @property
    def mixes_microbatches(self) -> bool:
        """Whether the experts of a rank get tokens of several micro-batches at once."""
        return self.experts > 0 and self.ep > self.cp * self.tp

    @property
    def hidden_shape(self) -> tuple[int, int, int]:
        """Of the hidden layout on a rank, [s, b, h]."""
        tokens = self.sequence // self.cp // (self.tp if self.sp else 1)
        return tokens, self.batch, self.hidden

    @property
    def ranks(self) -> int:
        """How many processes the mesh takes."""
        return math.prod(self.mesh_sizes.values())

    @property
    def microbatches_of_rank(self) -> int:
        """How many of a step's micro-batches each data-parallel rank runs."""
        return self.microbatches // self.dp

    @property
    def features(self) -> frozenset[str]:
        """The axes and mechanisms this run uses, by the names that `bugs.py` asks for."""
        features = {
            **{axis: size > 1 for axis, size in self.mesh_sizes.items()},
            **{option: getattr(self, option) for option in _SWITCHES},
            "vpp": self.vpp > 1,
            "dropout": self.dropout > 0,
            "clip": self.clip > 0,
            "frozen parameters": self.freeze != "",
            "several steps": self.steps > 1,
            "tp without sp": self.tp > 1 and not self.sp,
            "gathered products": self.sp and self.precision != "fp8",
            "experts": self.experts > 0,
            "experts over tp": self.experts > 0 and self.tp > 1 and not self.sp and self.ep > 1,
            "all-reduce over dp": self.dp > 1 and not self.zero,
            "edp other than dp": self.experts > 0 and self.expert_mesh_sizes["edp"] != self.dp,
            "uneven stages": self.layers % self.pp > 0,
            "stage of several layers": self.layers > self.pp,
            "fp8": self.precision == "fp8",
            "accumulation": self.microbatches_of_rank > 1,
        }
        return frozenset(feature for feature, on in features.items() if on)


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
    "experts": "experts in the place of each MLP (0: none)",
    "top_k": "experts that each token goes to",
    "multi_query": "all heads attend to one head of keys and values, whole on every rank",
    "dropout": "drop each element of what attention and MLP return with this probability",
    "padding": "some labels are padding, which the loss leaves out",
    "freeze": "do not train the parameters whose names this glob matches",
    "vpp": "chunks of layers on each pipeline stage",
    "expert_tp": "cut every expert over tp, instead of the experts over ep",
    "packed": "with ZeRO, let tied parameters share buckets, in which each stage cuts its own way",
    "ep": "expert-parallel size: the experts are cut over this many ranks of dp, cp and tp",
    "microbatches": "micro-batches of a step, over all data-parallel ranks",
    "pp": "pipeline stages",
    "cp": "context-parallel size: the sequence is cut in zigzag order, attention runs round a ring",
    "dp": "data-parallel size: each rank runs its share of the micro-batches",
    "tp": "tensor-parallel size",
    "sp": "sequence parallelism: between the tensor-parallel regions, shard the sequence over tp",
    "steps": "optimizer steps",
    "zero": "ZeRO-1: cut main gradients, main parameters and optimizer state over dp",
    "recompute": "keep no activations of the layers; the backward computes them anew",
    "optimizer": "sgd or adamw",
    "learning_rate": "learning rate",
    "weight_decay": "weight decay of AdamW",
    "momentum": "momentum of SGD",
    "clip": "clip the global gradient norm to this (0: never)",
    "precision": "fp32; or bf16, fp16, fp8, with fp32 main gradients and main parameters. fp8 is "
    "bf16 with emulated FP8 products in the layers",
    "loss_scale": "multiply the loss by this before its backward (0: 1024 in fp16, else 1)",
    "delayed_scaling": "with fp8, round output gradients too, by the scale of the step before",
    "seed": "seed of weights and data",
    "bug": "switch a bug of bugs.py on (may be repeated)",
    "trace": "write a trace: a folder, or a file ending in .h5 where there is one process",
    "perturb": "perturb the first activation by one rounding, with this seed (0: do not)",
}
