"""A model of transformers trained by trl on preferences: `DPO`, `KTO` or `Reward`."""

from __future__ import annotations

import tempfile

import datasets
import torch
import transformers
import trl
from torch import distributed
from train_grpo import tokenizer
from train_transformers import MICRO_BATCHES, STEPS, WORDS, config_of, whole_model

import ttrace_torch as tt

PROMPT, ANSWER, ROWS = 4, 4, 32


def text(seed, count):
    ids = torch.randint(2, WORDS, (count,), generator=torch.Generator().manual_seed(seed))
    return " ".join(map(str, ids.tolist()))


def rows(kind):
    """Named, since the hash of a table takes in all of pyarrow."""
    numbers = range(ROWS)
    columns = {
        "prompt": [text(number, PROMPT) + " " for number in numbers],
        "chosen": [text(100 + number, ANSWER) for number in numbers],
        "rejected": [text(200 + number, ANSWER) for number in numbers],
    }
    if kind == "KTO":
        columns["completion"] = columns.pop("chosen")
        columns["label"] = [number % 2 == 0 for number in numbers]
        del columns["rejected"]
    table = datasets.table.InMemoryTable.from_pydict(columns)
    return datasets.Dataset(table, fingerprint=f"preferences{kind}")


def model_of(case):
    if case["trainer"] != "Reward":
        return whole_model(case)
    torch.manual_seed(0)
    config = config_of(case)
    config.num_labels, config.pad_token_id = 1, 0
    return transformers.AutoModelForSequenceClassification.from_config(config)


def main(case, out):
    kind = case["trainer"]
    arguments = getattr(trl, f"{kind}Config")(
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
        gradient_checkpointing=False,
        # Padding is then the same in every layout.
        pad_to_multiple_of=16,
        **case.get("settings", {}),
    )
    trainer = getattr(trl, f"{kind}Trainer")(
        model=model_of(case),
        args=arguments,
        train_dataset=rows(kind),
        processing_class=tokenizer(),
        **({} if kind == "Reward" else {"ref_model": whole_model(case)}),
    )
    noise = tt.Perturb(case["noise"]) if "noise" in case else None
    trainer.add_callback(tt.trainer_callback(trainer, out=out, perturb=noise))
    trainer.train()
