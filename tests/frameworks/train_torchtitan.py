"""torchtitan's llama3 debug model trained by its own Trainer, as a user would: the tracer's lines
end in `# tt`. A case says the `degrees` of parallelism and the `backend`, torchtitan's default
without."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import titan_on_cpu

titan_on_cpu.install()

import torch  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3.config_registry import llama3_debugmodel  # noqa: E402

import ttrace_torch.torchtitan  # noqa: E402  # tt

SEQUENCE, WORDS, GLOBAL_BATCH, STEPS = 16, 2048, 4, 2


class NoTokenizer(BaseTokenizer):
    """The rows are ids already."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, **_):
        super().__init__()

    def encode(self, *_, **__):
        raise NotImplementedError

    decode = get_vocab_size = encode


class Rows(BaseDataLoader):
    """Rows of random ids, dealt out over the data-parallel ranks in blocks of a step, or in blocks
    of a micro-batch of all ranks."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        swapped: bool = False
        together: bool = False

    def __init__(self, config, *, dp_world_size, dp_rank, local_batch_size, **_):
        self._swapped, self._together = config.swapped, config.together
        self._ranks, self._rank, self._size = dp_world_size, dp_rank, local_batch_size

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    def __iter__(self):
        share = GLOBAL_BATCH // self._ranks
        for step in range(STEPS):
            mine = range(self._rank * share, self._rank * share + share)
            if self._together:
                mine = range(self._rank, GLOBAL_BATCH, self._ranks)
            for begin in range(0, share, self._size):
                numbers = mine[begin : begin + self._size]
                rows = torch.stack([self._row(step * GLOBAL_BATCH + n) for n in numbers])
                yield {"input": rows[:, :-1].contiguous()}, rows[:, 1:].contiguous()

    def _row(self, number):
        generator = torch.Generator().manual_seed(number ^ 1 if self._swapped else number)
        return torch.randint(WORDS, (SEQUENCE + 1,), generator=generator)


def configured(case):
    config = llama3_debugmodel()
    model = config.model_spec.model
    model.layers = model.layers[:4]
    for layer in model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.tokenizer, config.dataloader = NoTokenizer.Config(), Rows.Config()
    config.dataloader.swapped = case.get("fault") == "swapped"
    config.dump_folder = tempfile.mkdtemp()
    config.training.steps, config.training.seq_len = STEPS, SEQUENCE
    config.training.local_batch_size = case.get("local", 1)
    config.training.global_batch_size = GLOBAL_BATCH
    config.training.disable_cuda_graphs = True
    config.training.mixed_precision_param = case.get("precision", "float32")
    config.debug.seed = 1
    for name, value in case.get("degrees", {}).items():
        setattr(config.parallelism, f"{name}_degree", value)
    if "backend" in case:
        config.parallelism.spmd_backend = case["backend"]
        config.dataloader.together = case["backend"] == "full_dtensor"
    config.checkpoint.enable = config.validator.enable = False
    return config


def main(case, out):
    trainer = configured(case).build()
    # On the CPU torch draws the same numbers for every shard of a DTensor.
    ttrace_torch.consistent_init(ttrace_torch.torchtitan.model_of(trainer), std=0.1)  # tt
    noise = ttrace_torch.Perturb(case["noise"]) if "noise" in case else None  # tt
    if out is not None:
        ttrace_torch.torchtitan.Callback(trainer, out=out, perturb=noise)  # tt
    trainer.train()
    trainer.close()
    whole = [
        getattr(p, "full_tensor", lambda p=p: p)() for p in trainer.model_parts[0].parameters()
    ]
    return [value.double().sum().item() for value in whole]
