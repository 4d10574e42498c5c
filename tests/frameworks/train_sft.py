"""A model of transformers trained by trl's SFTTrainer, on rows of token ids: the tracer's lines end
in `# tt`."""

from __future__ import annotations

import tempfile

import datasets
from tokenizers import Tokenizer, models
from torch import distributed
from train_trainer import NoSync, Tokens, WrongScale
from train_transformers import MICRO_BATCHES, STEPS, WORDS, whole_model
from transformers import PreTrainedTokenizerFast, default_data_collator
from trl import SFTConfig, SFTTrainer

import ttrace_torch as tt  # tt


def tokenizer():
    """One that is never asked: the rows are ids already."""
    words = models.WordLevel({str(number): number for number in range(WORDS)}, unk_token="0")
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(words), pad_token="0", eos_token="1", unk_token="0"
    )


class WrongScaleSFT(WrongScale, SFTTrainer):
    pass


class NoSyncSFT(NoSync, SFTTrainer):
    pass


FAULTY = {"wrong_scale": WrongScaleSFT, "no_sync": NoSyncSFT}


def rows(swapped):
    """Named, since the hash of a table takes in all of pyarrow."""
    data = Tokens(swapped)
    ids = [data[number]["input_ids"].tolist() for number in range(len(data))]
    columns = {"input_ids": ids, "labels": ids, "attention_mask": [[1] * len(row) for row in ids]}
    table = datasets.table.InMemoryTable.from_pydict(columns)
    return datasets.Dataset(table, fingerprint="rows")


def main(case, out):
    arguments = SFTConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=MICRO_BATCHES // distributed.get_world_size(),
        max_steps=STEPS,
        learning_rate=1e-3,
        adam_epsilon=1e-3,
        max_grad_norm=1.0,
        use_cpu=True,
        bf16=False,
        ddp_backend="gloo",
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=1,
        # The rows are ready.
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        # trl would do it by default.
        gradient_checkpointing=case.get("checkpoint", False),
    )
    fault = case.get("fault")
    trainer = FAULTY.get(fault, SFTTrainer)(
        model=whole_model(case),
        args=arguments,
        train_dataset=rows(fault == "swapped"),
        processing_class=tokenizer(),
        data_collator=default_data_collator,
    )
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    if out is not None:
        trainer.add_callback(tt.trainer_callback(trainer, out=out, perturb=noise))  # tt
    trainer.train()
    return [value.sum().item() for value in trainer.model.state_dict().values()]
