"""Trains the miniature GPT and prints one line of JSON for each step.

python tests/gallery/train.py --steps 3
torchrun --nproc-per-node 2 tests/gallery/train.py --tp 2 --sp --steps 3 --bug P12
torchrun --nproc-per-node 4 tests/gallery/train.py --pp 2 --dp 2 --zero --microbatches 8
"""

import json
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: the package's parent is what Python must search
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import torch

from gallery import bugs, fp8
from gallery.collectives import all_reduce
from gallery.config import Config, parse
from gallery.gradients import (
    accumulate_main_gradients,
    clear_main_gradients,
    clip_gradients,
    finalize_gradients,
    gradient_norm,
)
from gallery.init import freeze, initialise
from gallery.microbatches import MicroBatches
from gallery.model import Gpt
from gallery.optim import Optimizer
from gallery.parallel import MeshError, ProcessMesh, connect, disconnect
from gallery.pipeline import FORWARD, schedule
from gallery.tracing import Tracer, open_tracer
from gallery.zero import Buckets


def train(config: Config) -> None:
    bugs.activate(config.bug, config.features)
    mesh = connect(config.mesh_sizes, config.expert_mesh_sizes)
    model = Gpt(config, mesh)
    initialise(model, mesh, config.seed)
    freeze(model, config.freeze)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    buckets = Buckets(parameters, mesh, config.packed) if config.zero else None
    optimizer = Optimizer(parameters, config, buckets)
    tracer = open_tracer(config, model, optimizer)

    for step in range(config.steps):
        with tracer.step(step):
            clear_main_gradients(parameters)
            loss = backward(config, model, mesh, tracer, step)
            finalize_gradients(parameters, mesh, buckets)
            if bugs.active("G9"):
                accumulate_main_gradients(parameters, main_weight(config))
            tracer.main_grads()
            norm = gradient_norm(parameters, mesh, buckets)
            tracer.grad_norm(norm, clip_norm=config.clip or None)
            if config.clip > 0 and bugs.active("G10"):
                for own in optimizer.by_expert():
                    clip_gradients(own, gradient_norm(own, mesh, buckets), config.clip)
            elif config.clip > 0:
                clip_gradients(parameters, norm, config.clip)
            optimizer.step()
            fp8.finish_step(model)
        if mesh.rank == 0:
            line = {"step": step, "loss": loss.item(), "grad_norm": norm.item()}
            print(json.dumps(line), flush=True)

    tracer.close()
    disconnect()


def backward(
    config: Config, model: Gpt, mesh: ProcessMesh, tracer: Tracer, step: int
) -> torch.Tensor:
    """Runs the step's micro-batches into the main gradients, their mean; returns the loss."""
    count = config.microbatches_of_rank
    microbatches = MicroBatches(config, model, mesh, tracer, step)
    for direction, turn in schedule(mesh["pp"], count, config.vpp > 1):
        with tracer.microbatch(microbatches.number(turn)):
            if direction == FORWARD:
                microbatches.forward(turn)
                continue
            microbatches.backward(turn)
            if not (bugs.active("G9") and turn == count - 1):
                accumulate_main_gradients(model.parameters(), main_weight(config))
    microbatches.finish()
    loss = microbatches.loss
    for axis in ("pp", "dp", "cp"):
        loss = all_reduce(loss, mesh[axis])
    return loss


def main_weight(config: Config) -> float:
    """With which a micro-batch's raw gradients enter the main gradients, their mean."""
    return 1 / (config.microbatches_of_rank * config.scale_of_loss)


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
