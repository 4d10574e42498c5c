"""A model of transformers trained by trl's GRPOTrainer: the tracer's lines end in `# tt`."""

from __future__ import annotations

import tempfile
import zlib

import datasets
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import distributed
from train_trainer import NoSync
from train_transformers import STEPS, WORDS, whole_model
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import ttrace_torch as tt  # tt

PROMPT, COMPLETION, SAMPLES = 4, 4, 4


def tokenizer():
    words = models.WordLevel({str(number): number for number in range(WORDS)}, unk_token="0")
    inner = Tokenizer(words)
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="0", eos_token="1", unk_token="0"
    )


def rows(seed):
    """Prompts. Named, since the hash of a table takes in all of pyarrow."""
    ids = torch.randint(2, WORDS, (16, PROMPT), generator=torch.Generator().manual_seed(seed))
    prompts = [" ".join(map(str, row)) for row in ids.tolist()]
    table = datasets.table.InMemoryTable.from_pydict({"prompt": prompts})
    return datasets.Dataset(table, fingerprint="prompts")


def completions(prompts, trainer):
    """The same for a prompt in every layout: drawn from the model, seeded by the prompt."""
    ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
    model = trainer.accelerator.unwrap_model(trainer.model)
    answers, state = [], torch.get_rng_state()
    with torch.no_grad():
        for place, prompt in enumerate(ids):
            torch.manual_seed(zlib.crc32(str(prompt).encode()) + ids[:place].count(prompt))
            drawn = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                do_sample=True,
                min_new_tokens=COMPLETION,
                max_new_tokens=COMPLETION,
            )
            answers.append(drawn[0, len(prompt) :].tolist())
    torch.set_rng_state(state)
    return {
        "prompt_ids": ids,
        "completion_ids": answers,
        "logprobs": [[0.0] * len(a) for a in answers],
    }


def reward(completions, **_):
    return [float(sum(map(int, answer.split())) % 17) for answer in completions]


class WrongScale(GRPOTrainer):
    """Forgets that gradients are accumulated."""

    def compute_loss(self, *given, **named):
        return 2 * super().compute_loss(*given, **named)


class NoSyncGRPO(NoSync, GRPOTrainer):
    pass


FAULTY = {"wrong_scale": WrongScale, "no_sync": NoSyncGRPO}


def main(case, out):
    ranks = distributed.get_world_size()
    each = case.get("each", 1)
    arguments = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=each,
        gradient_accumulation_steps=SAMPLES // ranks // each,
        num_generations=2,
        max_completion_length=COMPLETION,
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
        gradient_checkpointing=case.get("checkpoint", False),
        # Padding is then the same in every layout.
        pad_to_multiple_of=16,
        **case.get("settings", {}),
    )
    fault = case.get("fault")
    trainer = FAULTY.get(fault, GRPOTrainer)(
        model=whole_model(case),
        args=arguments,
        train_dataset=rows(int(fault == "other_data")),
        processing_class=tokenizer(),
        reward_funcs=reward,
        rollout_func=completions,
    )
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    if out is not None:
        trainer.add_callback(tt.trainer_callback(trainer, out=out, perturb=noise))  # tt
    trainer.train()
    return [value.sum().item() for value in trainer.model.state_dict().values()]
