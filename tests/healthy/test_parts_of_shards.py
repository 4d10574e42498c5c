"""Actor and critic under FSDP2, each clipped by its own norm: every rank has a part of it, and the
job tells what it gathers."""

import pytest
import torch
from answers import audited, compared
from process_groups import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import ttrace_torch as tt

LIMIT, RANKS = 0.05, 2


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
        self.critic = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.actor(x), self.critic(x)


def whole(norm):
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


TOLD = {"not": None, "gathered": whole, "a number": lambda norm: float(whole(norm))}


def train(path, agent, batches, told, specification=None, factor=1.0, fault=False):
    optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
    tracer = tt.trace(agent, optimizer, out=path, specification=specification)
    random = torch.Generator().manual_seed(1)
    seen, returns = torch.randn(8, 16, generator=random), torch.randn(8, 1, generator=random)
    with tracer.step(0):
        for number in batches:
            rows = slice(4 * number, 4 * number + 4)
            with tracer.microbatch(number):
                scores, values = agent(seen[rows])
                loss = (values - returns[rows]).square().mean() - scores.log_softmax(-1)[
                    :, 0
                ].mean()
                (tracer.loss(loss, returns=returns[rows]) * factor).backward()
        norms = [
            nn.utils.clip_grad_norm_(part.parameters(), LIMIT)
            for part in (agent.actor, agent.critic)
        ]
        for norm in norms if TOLD[told] is not None else ():
            tracer.grad_norm(TOLD[told](norm), clip_norm=LIMIT)
        if fault:
            agent.critic[0].weight.grad.mul_(0.5)
        optimizer.step()
    tracer.close()


def rank_of(rank, folder, told, fault):
    torch.manual_seed(0)
    agent = Agent()
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
    for part in (agent.actor, agent.critic, agent):
        fully_shard(part, mesh=mesh)
    train(folder / "run", agent, [rank], told, fault=fault)


@pytest.mark.parametrize(("told", "fault"), [*((told, False) for told in TOLD), ("not", True)])
def test_updates_are_replayed_by_the_norms_of_actor_and_critic(tmp_path, told, fault):
    torch.manual_seed(0)
    both = range(RANKS)
    specification = tmp_path / "specification.json"
    train(tmp_path / "reference.h5", Agent(), both, told, specification, factor=1 / RANKS)
    run_ranks(RANKS, rank_of, tmp_path, told, fault)
    answers = [audited(tmp_path, "run"), compared(tmp_path, "run")]
    wanted = "param_after_step critic.0.weight"
    for answer in answers:
        assert (answer.code, answer.found) == ((1, [wanted]) if fault else (0, [])), answer
    if not fault:
        assert answers[0].judged == answers[0].tensors
