"""Other loops around a DeepSpeed engine than that of train_deepspeed: right ones, refused ones."""

from __future__ import annotations

import torch
from deepspeed_gpt import GLOBAL_MICRO_BATCHES, STEPS, SmallGpt, get_batch, parameter_groups
from train_deepspeed import initialized, settings

import ttrace_torch as tt


def loss_of(engine, tracer, step, number):
    return tracer.loss(engine(*get_batch(step, number)))


def own_numbers(engine, tracer, step, numbers):
    """The user numbers the micro-batches, and evaluates something in between."""
    with tracer.step(step):
        for number in numbers:
            with tracer.microbatch(number):
                engine.backward(loss_of(engine, tracer, step, number))
            engine.step()


def step_once(engine, tracer, step, numbers):
    """One `engine.step()` after all micro-batches, whose end the user sets."""
    with tracer.step(step):
        for number in numbers:
            engine.set_gradient_accumulation_boundary(number == numbers[-1])
            engine.backward(loss_of(engine, tracer, step, number))
        engine.step()


def halfway(engine, tracer, step, numbers):
    loss = engine(*get_batch(step, numbers[0]))
    engine.backward(loss)
    engine.step()
    with tracer.step(step):
        pass


def half_a_step(engine, tracer, step, numbers):
    with tracer.step(step):
        engine.backward(loss_of(engine, tracer, step, numbers[0]))
        engine.step()


def too_many(engine, tracer, step, numbers):
    with tracer.step(step):
        for number in [*numbers, 0]:
            engine.backward(loss_of(engine, tracer, step, number))
            engine.step()


def forwards_first(engine, tracer, step, numbers):
    with tracer.step(step):
        losses = [loss_of(engine, tracer, step, number) for number in numbers]
        for loss in losses:
            engine.backward(loss)


def plain_backward(engine, tracer, step, numbers):
    with tracer.step(step):
        for number in numbers:
            loss_of(engine, tracer, step, number).backward()
            engine.step()


def own_loss(engine, tracer, step, numbers):
    """The script computes the loss from what the model returns."""
    with tracer.step(step):
        for number in numbers:
            engine.backward(tracer.loss(engine(*get_batch(step, number)) * 1))
            engine.step()


def own_loss_plain(engine, tracer, step, numbers):
    with tracer.step(step):
        for number in numbers:
            tracer.loss(engine(*get_batch(step, number)) * 1).backward()
            engine.step()


def too_early(engine, tracer, step, numbers):
    with tracer.step(step):
        tracer.main_grads()


RIGHT = {f.__name__: f for f in (own_numbers, step_once, plain_backward, own_loss, own_loss_plain)}
REFUSED = {f.__name__: f for f in (halfway, half_a_step, too_many, forwards_first, too_early)}
ARGUMENTS = {
    "mesh": lambda engine: {"mesh": tt.Mesh({"dp": 1})},
    "other_optimizer": lambda engine: {"optimizer": torch.optim.SGD(engine.parameters(), lr=1.0)},
}


def main(case, out):
    world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    share = GLOBAL_MICRO_BATCHES // world
    numbers = range(share * rank, share * (rank + 1))
    model = SmallGpt()
    engine = initialized(model, parameter_groups(model), settings(case, share))
    loop = case["loop"]
    try:
        arguments = ARGUMENTS.get(loop, lambda _: {})(engine)
        tracer = tt.trace(engine, out=out, **arguments)
        for step in range(STEPS if loop in RIGHT else 1):
            {**RIGHT, **REFUSED}[loop](engine, tracer, step, numbers)
        tracer.close()
        if tracer.incomplete:
            # Nothing throws inside a loop; the launcher writes this down.
            raise tt.TraceError("\n".join(tracer.incomplete))
    finally:
        engine.destroy()
