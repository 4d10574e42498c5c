"""One process of the trainer against a GPT written anew with nothing but torch.nn.functional."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gallery import bugs
from gallery.config import Config
from gallery.data import tokens
from gallery.init import initialise
from gallery.loss import mean_loss
from gallery.model import Gpt
from gallery.parallel import ProcessMesh
from gallery.train import train

CONFIG = Config(steps=3)
Weights = dict[str, Tensor]


def plain_loss(w: Weights, ids: Tensor, labels: Tensor) -> Tensor:
    """Batch first, another attention kernel, and no notion of a mesh."""
    ids, labels = ids.T, labels.T
    batch, sequence = ids.shape
    heads, width = CONFIG.heads, CONFIG.hidden // CONFIG.heads
    x = w["embedding.word.weight"][ids] + w["embedding.position.weight"][:sequence]

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        spread = torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        return centred / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    for n in range(CONFIG.layers):
        layer = f"layers.{n}"
        qkv = linear(norm(x, f"{layer}.norm1"), f"{layer}.attn.qkv")
        qkv = qkv.reshape(batch, sequence, heads, 3, width)
        q, k, v = (qkv[:, :, :, part].transpose(1, 2) for part in range(3))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(context.transpose(1, 2).flatten(2), f"{layer}.attn.proj")
        inner = F.gelu(linear(norm(x, f"{layer}.norm2"), f"{layer}.mlp.fc1"))
        x = x + linear(inner, f"{layer}.mlp.fc2")
    logits = norm(x, "final_norm") @ w["embedding.word.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def initial_model() -> Gpt:
    bugs.activate((), ())
    mesh = ProcessMesh(CONFIG.mesh_sizes)
    model = Gpt(CONFIG, mesh)
    initialise(model, mesh, CONFIG.seed)
    return model


def initial_weights() -> Weights:
    return {
        name: p.detach().clone().requires_grad_() for name, p in initial_model().named_parameters()
    }


def test_loss_and_every_gradient() -> None:
    ids, labels = tokens(CONFIG, step=0, microbatch=0)
    model, weights = initial_model(), initial_weights()
    loss, expected = mean_loss(model(ids, labels)), plain_loss(weights, ids, labels)
    loss.backward()
    expected.backward()

    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    for name, parameter in model.named_parameters():
        error = (parameter.grad - weights[name].grad).norm() / weights[name].grad.norm()
        assert error < 2e-6, name


def test_three_steps_of_momentum(capsys: pytest.CaptureFixture) -> None:
    train(CONFIG)
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    weights = initial_weights()
    optimizer = torch.optim.SGD(weights.values(), lr=CONFIG.learning_rate, momentum=CONFIG.momentum)
    for number, step in enumerate(steps):
        optimizer.zero_grad()
        loss = plain_loss(weights, *tokens(CONFIG, number, microbatch=0))
        loss.backward()
        norm = torch.stack([w.grad.norm() for w in weights.values()]).norm()
        assert step["loss"] == pytest.approx(loss.item(), rel=1e-6)
        assert step["grad_norm"] == pytest.approx(norm.item(), rel=1e-5)
        optimizer.step()
    assert len(steps) == CONFIG.steps


def test_the_tokens_depend_on_step_and_microbatch_and_follow_one_another() -> None:
    ids, labels = tokens(CONFIG, step=0, microbatch=0)
    assert ids.shape == labels.shape == (CONFIG.sequence, CONFIG.batch)
    assert torch.equal(ids[1:], labels[:-1])
    for step, microbatch in ((1, 0), (0, 1)):
        assert not torch.equal(ids, tokens(CONFIG, step, microbatch)[0])
