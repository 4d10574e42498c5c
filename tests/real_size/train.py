"""Trains cases as `frameworks/launching.py` says; one step of two micro-batches of 128 tokens.

A case is what `Case.trainings` says; with `specify` it writes OUT/specification.json, too. Beside
its trace stands OUT/<name>.json with what the study tells of the run: parameters, and the gradient
norm as recorded and in double precision.
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext

import launching
import torch
from torch import distributed

import ttrace_torch as tt
from real_size.cases import SPECIFICATION
from real_size.models import build
from real_size.norms import clip, exact
from real_size.parallel import parallelized

MICRO_BATCHES = 2
TOKENS = 128  # of a micro-batch


def batch(number, vocabulary):
    generator = torch.Generator().manual_seed(1000 + number)
    return torch.randint(vocabulary, (1, TOKENS), generator=generator)


def train(training, out):
    # Weights stay in fp32 where FSDP2 computes in bf16.
    mixed = training["layout"].endswith("fsdp2")
    half = training["precision"] == "bf16" and not mixed
    model = build(training["model"], torch.bfloat16 if half else torch.float32, training["tiny"])
    vocabulary, parameters = model.config.vocab_size, model.num_parameters()
    model, ranks, rank = parallelized(model, training)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    noise = tt.Perturb(training["noise"]) if "noise" in training else None
    specification = out.with_name(SPECIFICATION) if training.get("specify") else None
    tracer = tt.trace(model, optimizer, out=out, perturb=noise, specification=specification)
    share = MICRO_BATCHES // ranks
    begun = time.monotonic()
    with tracer.step(0):
        for number in range(share):
            with tracer.microbatch(number, of=share), _accumulating(model, number < share - 1):
                ids = batch(rank * share + number, vocabulary)
                loss = model(input_ids=ids, labels=ids, use_cache=False).loss
                tracer.loss(loss)
                (loss / share).backward()
        tracer.main_grads()
        in_double = exact(model)
        norm = clip(model, of_shard=training.get("fault") == "norm_of_shard")
        tracer.grad_norm(norm, clip_norm=1.0)
        optimizer.step()
    tracer.close()
    if distributed.get_rank() == 0:
        facts = {"parameters": parameters, "grad_norm": norm.item(), "exact_norm": in_double}
        facts["step_seconds"] = time.monotonic() - begun
        out.with_name(f"{out.name.removesuffix('.h5')}.json").write_text(json.dumps(facts))


def _accumulating(model, more):
    ddp = isinstance(model, torch.nn.parallel.DistributedDataParallel)
    return model.no_sync() if ddp and more else nullcontext()


if __name__ == "__main__":
    launching.launch(launching.begin_gloo, train)
