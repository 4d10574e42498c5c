"""Jobs that clip parts of their gradients by norms of their own, as actor and critic: each update
is replayed by the norm of its part, whether the job tells the norms or not."""

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

LIMIT = 0.05


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
        self.critic = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))

    def parts(self):
        return [list(self.actor.parameters()), list(self.critic.parameters())]


def separately(tracer, agent):
    for part in agent.parts():
        nn.utils.clip_grad_norm_(part, LIMIT)


def first_told(tracer, agent):
    actor, critic = (nn.utils.clip_grad_norm_(part, LIMIT) for part in agent.parts())
    tracer.grad_norm(actor, clip_norm=LIMIT)


def all_told(tracer, agent):
    norms = [nn.utils.clip_grad_norm_(part, LIMIT) for part in agent.parts()]
    for norm in norms:
        tracer.grad_norm(float(norm), clip_norm=LIMIT)


def by_hand(tracer, agent):
    tracer.main_grads()
    for part in agent.parts():
        norm = torch.sqrt(sum(parameter.grad.square().sum() for parameter in part))
        tracer.grad_norm(norm, clip_norm=LIMIT, parameters=part)
        for parameter in part:
            parameter.grad *= min(1.0, LIMIT / (float(norm) + 1e-6))


def actor_alone(tracer, agent):
    nn.utils.clip_grad_norm_(agent.actor.parameters(), LIMIT)


def without_names_in_common(tracer, agent):
    every = list(agent.parameters())
    nn.utils.clip_grad_norm_([one for one in every if one.dim() > 1], LIMIT)
    nn.utils.clip_grad_norm_([one for one in every if one.dim() == 1], LIMIT)


def one_norm_for_both(tracer, agent):
    """As jobs with experts clip: one norm of all, two calls that clip by it."""
    norm = nn.utils.get_total_norm([one.grad for one in agent.parameters()])
    for part in agent.parts():
        nn.utils.clip_grads_with_norm_(part, LIMIT, norm)
    tracer.grad_norm(norm, clip_norm=LIMIT)


WAYS = [
    separately,
    first_told,
    all_told,
    by_hand,
    actor_alone,
    without_names_in_common,
    one_norm_for_both,
]


def run_job(path, clip, specification=None, after=None):
    """after: called with the agent after its gradients were clipped."""
    torch.manual_seed(0)
    agent = Agent()
    optimizers = [torch.optim.Adam(part, lr=1e-2) for part in agent.parts()]
    tracer = tt.trace(agent, optimizers, out=path, specification=specification)
    random = torch.Generator().manual_seed(1)
    for number in range(2):
        seen = torch.randn(8, 16, generator=random)
        returns, chosen = torch.randn(8, 1, generator=random), torch.arange(8) % 4
        with tracer.step(number):
            values = agent.critic(seen)
            criticism = (values - returns).square().mean()
            tracer.loss(criticism, returns=returns).backward()
            scores = agent.actor(seen).log_softmax(-1).gather(1, chosen[:, None])
            tracer.loss(-scores.mean(), chosen=chosen).backward()
            clip(tracer, agent)
            if after is not None:
                after(agent)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    tracer.close()


def overlapping(tracer, agent):
    """The first layer of the actor is clipped with either part."""
    shared = list(agent.actor[0].parameters())
    for part in agent.parts():
        nn.utils.clip_grad_norm_([*shared, *(one for one in part if one.numel() < 300)], LIMIT)


def a_part_and_then_all(tracer, agent):
    nn.utils.clip_grad_norm_(agent.actor.parameters(), LIMIT)
    nn.utils.clip_grad_norm_(agent.parameters(), LIMIT / 2)


def a_part_by_value_and_then_all_told(tracer, agent):
    nn.utils.clip_grad_value_(agent.actor.parameters(), LIMIT / 100)
    tracer.grad_norm(nn.utils.clip_grad_norm_(agent.critic.parameters(), LIMIT), clip_norm=LIMIT)


def told_and_then_clipped_again(tracer, agent):
    tracer.grad_norm(nn.utils.clip_grad_norm_(agent.actor.parameters(), LIMIT), clip_norm=LIMIT)
    nn.utils.clip_grad_value_(agent.actor.parameters(), LIMIT / 100)


def one_norm_and_two_limits(tracer, agent):
    norm = nn.utils.get_total_norm([one.grad for one in agent.parameters()])
    for part, limit in zip(agent.parts(), (LIMIT, LIMIT / 2), strict=True):
        nn.utils.clip_grads_with_norm_(part, limit, norm)
    tracer.grad_norm(norm)


def by_the_larger_norm(tracer, agent):
    norms = [nn.utils.get_total_norm([one.grad for one in part]) for part in agent.parts()]
    for part in agent.parts():
        nn.utils.clip_grads_with_norm_(part, LIMIT, torch.stack(norms).max())


def by_the_largest_gradient(tracer, agent):
    norm = nn.utils.clip_grad_norm_(agent.actor.parameters(), LIMIT, norm_type=float("inf"))
    tracer.grad_norm(norm, clip_norm=LIMIT)


def for_the_log_alone(tracer, agent):
    norm = nn.utils.get_total_norm([one.grad for one in agent.actor.parameters()])
    tracer.grad_norm(norm, parameters=agent.actor.parameters())


OTHER_WAYS = [
    overlapping,
    a_part_and_then_all,
    a_part_by_value_and_then_all_told,
    told_and_then_clipped_again,
    one_norm_and_two_limits,
    by_the_larger_norm,
    by_the_largest_gradient,
    for_the_log_alone,
]


# Those whose formulas read what the trace has: gradients, and norms that the job tells.
FOLLOWED = (
    a_part_by_value_and_then_all_told,
    told_and_then_clipped_again,
    one_norm_and_two_limits,
    by_the_largest_gradient,
    for_the_log_alone,
)


@pytest.mark.parametrize("clip", OTHER_WAYS, ids=lambda way: way.__name__)
def test_a_healthy_run_that_clips_in_another_way_is_not_accused(tmp_path, clip):
    run_job(tmp_path / "reference.h5", clip, specification=tmp_path / "specification.json")
    run_job(tmp_path / "run.h5", clip)
    answer = audited(tmp_path)
    assert compared(tmp_path).code == 0
    # What is neither replayed nor followed is said: of 16 updates some.
    left = answer.judged < answer.tensors
    assert left == (clip not in FOLLOWED), answer
    assert answer.code == (3 if left else 0) and not answer.found, answer
    assert ("updates of" in answer.line) == left, answer


@pytest.mark.parametrize("clip", WAYS, ids=lambda way: way.__name__)
def test_a_healthy_run_is_replayed_and_a_changed_gradient_is_found(tmp_path, capfd, clip):
    run_job(tmp_path / "reference.h5", clip, specification=tmp_path / "specification.json")
    run_job(tmp_path / "run.h5", clip)
    assert "cannot be replayed" not in capfd.readouterr().err
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    assert compared(tmp_path).code == 0

    def change(agent):
        agent.critic[0].weight.grad *= -1

    run_job(tmp_path / "run.h5", clip, after=change)
    answer = audited(tmp_path)
    # Gradients that nobody clips are recorded when their own optimizer begins its step, and so
    # after the change.
    kind = "main_grad" if clip is actor_alone else "param_after_step"
    assert answer.code == 1 and answer.found == [f"{kind} critic.0.weight"], answer
    assert f"{kind} critic.0.weight" in compared(tmp_path).found


def test_a_norm_of_the_wrong_gradients_is_found(tmp_path):
    def told_of_all(tracer, agent):
        """The norm of all clips the actor."""
        norm = nn.utils.get_total_norm([one.grad for one in agent.parameters()])
        nn.utils.clip_grads_with_norm_(agent.actor.parameters(), LIMIT, norm)
        tracer.grad_norm(norm, clip_norm=LIMIT)
        nn.utils.clip_grad_norm_(agent.critic.parameters(), LIMIT)

    clip = first_told
    run_job(tmp_path / "reference.h5", clip, specification=tmp_path / "specification.json")
    run_job(tmp_path / "run.h5", told_of_all)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "grad_norm actor", answer
    assert compared(tmp_path).found[0] == "grad_norm actor"


def test_a_run_that_clips_all_gradients_at_once_diverges(tmp_path):
    def together(tracer, agent):
        nn.utils.clip_grad_norm_(agent.parameters(), LIMIT)

    run_job(tmp_path / "reference.h5", separately, specification=tmp_path / "specification.json")
    run_job(tmp_path / "run.h5", together)
    answer = compared(tmp_path)
    assert answer.code == 1 and "clipped" in answer.line, answer


def test_norms_that_cannot_be_told_apart_are_asked_for(tmp_path, capfd):
    class Layered(torch.Tensor):
        placements = ()

    def of_tensors_that_are_not_read(tracer, agent):
        for part in agent.parts():
            nn.utils.clip_grad_norm_(part, LIMIT)
        tracer.grad_norm(torch.ones(()).as_subclass(Layered), clip_norm=LIMIT)

    run_job(tmp_path / "run.h5", of_tensors_that_are_not_read)
    assert "tracer.grad_norm(norm, parameters=...)" in capfd.readouterr().err
