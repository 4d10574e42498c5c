"""Optimizers that a script writes by hand, with one weight that loses its decay in part."""

import pytest
import torch
from answers import compared
from torch import nn

import ttrace_torch as tt

RATE, DECAY, BETAS, TINY = 0.01, 0.1, (0.9, 0.999), 1e-8


class AdamW(torch.optim.AdamW):
    """The rule of torch's AdamW, computed here. undecayed: elements of the first parameter whose
    decay is forgotten."""

    def __init__(self, parameters, undecayed=0):
        super().__init__(parameters, lr=RATE, weight_decay=DECAY)
        self.undecayed = undecayed

    @torch.no_grad()
    def step(self, closure=None):
        update(self.param_groups[0]["params"], self.state, self.undecayed)


def update(parameters, states, undecayed):
    for place, parameter in enumerate(parameters):
        state = states[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        count = state["step"].item()
        decay = torch.full((parameter.numel(),), 1 - RATE * DECAY)
        if place == 0:
            decay[:undecayed] = 1
        parameter.mul_(decay.view_as(parameter))
        state["exp_avg"].lerp_(parameter.grad, 1 - BETAS[0])
        square = parameter.grad * parameter.grad
        state["exp_avg_sq"].mul_(BETAS[1]).add_(square, alpha=1 - BETAS[1])
        scale = (state["exp_avg_sq"] / (1 - BETAS[1] ** count)).sqrt() + TINY
        parameter.addcdiv_(state["exp_avg"], scale, value=-RATE / (1 - BETAS[0] ** count))


def run_job(folder, out, subclassed, undecayed=0):
    """One step. subclassed: whether the optimizer is one of torch's for the collector."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = AdamW(model.parameters(), undecayed) if subclassed else None
    tracer = tt.trace(model, optimizer, out=folder / out)
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    with tracer.step(0):
        tracer.loss(model(x).square().mean()).backward()
        if optimizer is not None:
            optimizer.step()
        else:
            tracer.main_grads()
            states = {parameter: {} for parameter in model.parameters()}
            with torch.no_grad():
                update(list(model.parameters()), states, undecayed)
            tracer.params_after_step()
    tracer.close()


@pytest.mark.parametrize("subclassed", [True, False])
def test_healthy_update_matches(tmp_path, subclassed):
    run_job(tmp_path, "reference.h5", subclassed)
    run_job(tmp_path, "run.h5", subclassed)
    assert compared(tmp_path).code == 0


def test_lost_decay_is_found_where_torch_knows_the_rule(tmp_path):
    run_job(tmp_path, "reference.h5", subclassed=True)
    run_job(tmp_path, "run.h5", subclassed=True, undecayed=1000)
    answer = compared(tmp_path)
    assert answer.code == 1 and answer.found == ["param_after_step 0.weight"], answer


def test_lost_decay_is_no_match_where_nothing_knows_the_rule(tmp_path):
    run_job(tmp_path, "reference.h5", subclassed=False)
    run_job(tmp_path, "run.h5", subclassed=False, undecayed=1000)
    answer = compared(tmp_path)
    assert answer.code == 3 and "as by a wrong decay or learning rate" in answer.line, answer
