"""What is trained with each release of a package: one short healthy layout and a planted bug."""

from __future__ import annotations

from typing import Any, NamedTuple


class Package(NamedTuple):
    """A case is what `launcher` reads; `healthy` and `planted` run on two processes, `reference` on
    one.

    found: a part of where the planted bug first shows, as `name · kind`.
    beside: what its environment holds besides the release, torch, numpy and h5py.
    alone: whether the release is installed without what it asks for.
    built: whether it is built from its source, with the torch that is there by then.
    apart: whether a process can train one case alone.
    """

    launcher: str
    reference: dict[str, Any]
    healthy: dict[str, Any]
    planted: dict[str, Any]
    found: str
    beside: tuple[str, ...] = ()
    alone: bool = False
    built: bool = False
    apart: bool = False


_GPT = {"config": {}, "reduction": {}, "parallel": {}}
_TP2 = {
    "parallel": {"tensor_model_parallel_size": 2},
    "reduction": {},
    "config": {"sequence_parallel": True},
}
_LLAMA = {"model": "llama"}
_ACCELERATE = {**_LLAMA, "script": "train_accelerate"}
_GRPO = {**_LLAMA, "script": "train_grpo"}
_TITAN = {"script": "train_torchtitan"}

PACKAGES = {
    "torch": Package(
        "launch_torch.py",
        {"kind": "plain"},
        {"kind": "fsdp", "axes": {"dp": 2}},
        {"kind": "fsdp", "axes": {"dp": 2}, "fault": "wrong_count"},
        "loss · grad_output",
    ),
    "megatron-core": Package(
        "launch_megatron.py",
        _GPT,
        _TP2,
        {**_TP2, "fault": "norms_not_summed"},
        "layernorm.weight · main_grad",
        beside=("einops", "packaging"),
        alone=True,
    ),
    "transformers": Package(
        "launch_transformers.py",
        {**_LLAMA, "kind": "plain"},
        {**_LLAMA, "kind": "tp"},
        {**_LLAMA, "kind": "tp", "fault": "wrong_shard"},
        "up_proj.weight · param",
        beside=("accelerate", "peft"),
    ),
    "accelerate": Package(
        "launch_transformers.py",
        _ACCELERATE,
        _ACCELERATE,
        {**_ACCELERATE, "fault": "no_sync"},
        "main_grad",
        beside=("transformers", "peft"),
    ),
    "lightning": Package(
        "launch_lightning.py",
        {"kind": "plain"},
        {"kind": "fsdp2"},
        {"kind": "ddp", "fault": "no_sync"},
        "main_grad",
    ),
    "trl": Package(
        "launch_transformers.py",
        _GRPO,
        _GRPO,
        {**_GRPO, "fault": "no_sync"},
        "main_grad",
        beside=("peft", "datasets"),
    ),
    "megatron-fsdp": Package(
        "launch_megatron_fsdp.py",
        {"zero": 0},
        {"zero": 3},
        {"zero": 3, "fault": "wrong_shard"},
        "w1.weight · param",
        beside=("packaging",),
        alone=True,
    ),
    "deepspeed": Package(
        "launch_deepspeed.py",
        {},
        {"stage": 2},
        {"stage": 2, "divisor": 2},
        "grad",
        built=True,
    ),
    "torchtitan": Package(
        "launch_transformers.py",
        _TITAN,
        _TITAN,
        {**_TITAN, "fault": "swapped"},
        "(model) · input",
        apart=True,
    ),
}
