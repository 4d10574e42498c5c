"""Trains the miniature GPT and prints one line of JSON for each step.

python tests/gallery/train.py --steps 3
torchrun --nproc-per-node 2 tests/gallery/train.py --tp 2 --sp --steps 3 --bug P12
"""

import json
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: the package's parent is what Python must search
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import torch

from gallery import bugs
from gallery.config import Config, parse
from gallery.data import tokens
from gallery.gradients import (
    accumulate_main_gradients,
    clear_main_gradients,
    clip_gradients,
    finalize_gradients,
    gradient_norm,
)
from gallery.init import initialise
from gallery.loss import mean_loss
from gallery.model import Gpt
from gallery.optim import Optimizer
from gallery.parallel import MeshError, connect, disconnect
from gallery.tracing import Tracer, open_tracer


def train(config: Config) -> None:
    bugs.activate(config.bug, config.features)
    mesh = connect(config.mesh_sizes)
    model = Gpt(config, mesh)
    initialise(model, mesh, config.seed)
    parameters = list(model.parameters())
    optimizer = Optimizer(parameters, config)
    tracer = open_tracer(config, model, optimizer)

    for step in range(config.steps):
        with tracer.step(step):
            clear_main_gradients(parameters)
            loss = backward(config, model, tracer, step)
            finalize_gradients(parameters, mesh)
            tracer.main_grads()
            norm = gradient_norm(parameters, mesh)
            tracer.grad_norm(norm, clip_norm=config.clip or None)
            if config.clip > 0:
                clip_gradients(parameters, norm, config.clip)
            optimizer.step()
        if mesh.rank == 0:
            print(json.dumps({"step": step, "loss": loss, "grad_norm": norm.item()}), flush=True)

    tracer.close()
    disconnect()


def backward(config: Config, model: Gpt, tracer: Tracer, step: int) -> float:
    """Runs the step's micro-batches into the main gradients; returns the loss."""
    microbatch = 0
    with tracer.microbatch(microbatch):
        ids, labels = tokens(config, step, microbatch)
        loss = mean_loss(model(ids, labels))
        tracer.loss(loss)
        loss.backward()
        accumulate_main_gradients(model.parameters())
    return loss.item()


def main() -> int:
    torch.set_num_threads(1)  # several threads may sum in another order each time
    try:
        train(parse())
    except (bugs.BugError, MeshError) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
