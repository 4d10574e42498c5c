"""A small GPT trained by Lightning's Trainer, as a user would: the tracer's lines end in `# tt`."""

from __future__ import annotations

import tempfile

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy
from small_gpt import (
    GLOBAL_MICRO_BATCHES,
    SEQUENCE,
    STEPS,
    VOCABULARY,
    Block,
    loss_of,
    small_gpt,
)
from torch import distributed
from torch.distributed.fsdp import fully_shard
from torch.utils.data.distributed import DistributedSampler

import ttrace_torch.lightning  # tt


class Tokens(torch.utils.data.Dataset):
    """Rows that depend on their number alone; `swapped`: they change places in pairs."""

    def __init__(self, swapped=False):
        self._other = 2 if swapped else 0

    def __len__(self):
        return 16

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(number ^ self._other)
        return torch.randint(VOCABULARY, (SEQUENCE + 1,), generator=generator)


class Gpt(lightning.LightningModule):
    def __init__(self, case):
        super().__init__()
        self.gpt = small_gpt()
        self._case = case
        self.automatic_optimization = "by_hand" not in case

    def configure_model(self):
        if self._case["kind"] == "fsdp2":
            mesh = self.device_mesh["data_parallel"]
            for layer in self.gpt.layers.values():
                fully_shard(layer, mesh=mesh)
            fully_shard(self.gpt, mesh=mesh)

    def forward(self, ids):
        return self.gpt(ids)

    def training_step(self, batch, number):
        loss = loss_of(self(batch[:, :-1]), batch[:, 1:])
        return {"loss": 2 * loss if self._case.get("fault") == "wrong_scale" else loss}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, eps=1e-3)


class NoSync(DDPStrategy):
    """Leaves every gradient on its rank."""

    def training_step(self, *given, **named):
        with self.model.no_sync():
            return super().training_step(*given, **named)


def strategy(case):
    if case["kind"] == "plain":
        return "auto"
    if case["kind"] == "ddp":
        ddp = NoSync if case.get("fault") == "no_sync" else DDPStrategy
        return ddp(process_group_backend="gloo", **case.get("ddp", {}))
    if case["kind"] == "fsdp1":
        return FSDPStrategy(process_group_backend="gloo", auto_wrap_policy={Block})
    return ModelParallelStrategy(
        data_parallel_size=distributed.get_world_size(),
        tensor_parallel_size=1,
        process_group_backend="gloo",
    )


def main(case, out):
    ranks = distributed.get_world_size()
    model = Gpt(case)
    noise = ttrace_torch.Perturb(case["noise"]) if "noise" in case else None  # tt
    tracing = ttrace_torch.lightning.Callback(out=out, perturb=noise)  # tt
    trainer = lightning.Trainer(
        callbacks=[] if out is None else [tracing],
        accelerator="cpu",
        strategy=strategy(case),
        devices=ranks,
        accumulate_grad_batches=1 if "by_hand" in case else GLOBAL_MICRO_BATCHES // ranks,
        max_steps=STEPS,
        gradient_clip_val=case.get("clip", 0.0),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tempfile.mkdtemp(),
        **case.get("trainer", {}),
    )
    data = Tokens(case.get("fault") == "swapped")
    # On several ranks Lightning deals the samples out by such a sampler of its own.
    sampler = DistributedSampler(data, num_replicas=1, rank=0) if ranks == 1 else None
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=1, sampler=sampler))
    whole = [getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters()]
    return [value.double().sum().item() for value in whole]
