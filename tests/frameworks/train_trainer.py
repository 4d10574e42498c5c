"""A model of transformers trained by its Trainer: the tracer's lines end in `# tt`."""

from __future__ import annotations

import tempfile

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from torch import distributed
from train_transformers import MICRO_BATCHES, STEPS, TOKENS, WORDS, whole_model
from transformers import Trainer, TrainingArguments

import ttrace_torch as tt  # tt


class Tokens(torch.utils.data.Dataset):
    """Rows that depend on their number alone; `swapped`: batches change places in pairs."""

    def __init__(self, swapped=False):
        self._other = 2 if swapped else 0

    def __len__(self):
        return 64

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(number ^ self._other)
        ids = torch.randint(WORDS, (TOKENS,), generator=generator)
        return {"input_ids": ids, "labels": ids.clone()}


class WrongScale(Trainer):
    """Forgets that gradients are accumulated."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        return (2 * loss, outputs) if return_outputs else 2 * loss


class NoSync(Trainer):
    """Leaves every gradient on its rank."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        with model.no_sync():
            return super().training_step(model, inputs, num_items_in_batch)


def sharded(case):
    """The arguments of Trainer for FSDP2 on several ranks."""
    if "fsdp2" not in case or distributed.get_world_size() == 1:
        return {}
    settings = {"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], **case["fsdp2"]}
    return {"fsdp": True, "fsdp_config": {"version": 2, **settings}}


FAULTY = {"wrong_scale": WrongScale, "no_sync": NoSync}


def main(case, out):
    ranks = distributed.get_world_size()
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=MICRO_BATCHES // ranks,
        max_steps=STEPS,
        learning_rate=1e-3,
        adam_epsilon=1e-3,
        max_grad_norm=1.0,
        use_cpu=True,
        bf16=case.get("bf16", False),
        ddp_backend="gloo",
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=1,
        **sharded(case),
    )
    if arguments.fsdp:
        # accelerate ignores FSDP unless its state says that it runs on several GPUs.
        PartialState()._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    fault = case.get("fault")
    data = Tokens(fault == "swapped")
    trainer = FAULTY.get(fault, Trainer)(
        model=whole_model(case), args=arguments, train_dataset=data
    )
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    if out is not None:
        trainer.add_callback(tt.trainer_callback(trainer, out=out, perturb=noise))  # tt
    trainer.train()
    return [value.sum().item() for value in trainer.model.state_dict().values()]
