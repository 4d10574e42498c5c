"""One step of a Llama in two implementations: Hugging Face's, and one written by hand with query,
key and value in one matrix, and gate and up in one. Same weights, same tokens.

Writes OUT/reference.h5 (Hugging Face), OUT/fused.h5, OUT/swapped.h5 (gate and up exchanged when
the weights were loaded), and OUT/noise.h5, the reference perturbed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

import ttrace_torch as tt

LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCABULARY, TOKENS = 2, 64, 4, 2, 160, 211, 24
HEAD = HIDDEN // HEADS
BASE = 10000.0


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Rotary(nn.Module):
    """Cosines and sines of all positions, computed once for a batch of any size."""

    def forward(self, tokens: int) -> tuple[Tensor, Tensor]:
        frequencies = BASE ** (-torch.arange(0, HEAD, 2) / HEAD)
        angles = torch.outer(torch.arange(tokens), frequencies).repeat(1, 2)
        return angles.cos(), angles.sin()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        parts = self.qkv(x).split([HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], dim=-1)
        q, k, v = (part.view(batch, tokens, -1, HEAD).transpose(1, 2) for part in parts)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = (part.repeat_interleave(HEADS // KV_HEADS, dim=1) for part in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, HIDDEN))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up = nn.Linear(HIDDEN, 2 * FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn = Norm(), Attention()
        self.norm2, self.mlp = Norm(), Mlp()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class FusedLlama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.rotary = Rotary()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        cos, sin = self.rotary(ids.shape[1])
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def hugging_face() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=FFN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=TOKENS,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
    )
    config._attn_implementation = "sdpa"
    return LlamaForCausalLM(config)


def fused(source: LlamaForCausalLM, *, swapped: bool) -> FusedLlama:
    """With the weights of `source`; `swapped`: up before gate."""
    model = FusedLlama()
    given = source.state_dict()
    taken = {
        "embed.weight": given["model.embed_tokens.weight"],
        "norm.weight": given["model.norm.weight"],
        "head.weight": given["lm_head.weight"],
    }
    for i in range(LAYERS):
        here, there = f"blocks.{i}", f"model.layers.{i}"
        halves = [given[f"{there}.mlp.{name}_proj.weight"] for name in ("gate", "up")]
        qkv = [given[f"{there}.self_attn.{name}_proj.weight"] for name in "qkv"]
        taken |= {
            f"{here}.norm1.weight": given[f"{there}.input_layernorm.weight"],
            f"{here}.norm2.weight": given[f"{there}.post_attention_layernorm.weight"],
            f"{here}.attn.qkv.weight": torch.cat(qkv),
            f"{here}.attn.out.weight": given[f"{there}.self_attn.o_proj.weight"],
            f"{here}.mlp.gate_up.weight": torch.cat(halves[::-1] if swapped else halves),
            f"{here}.mlp.down.weight": given[f"{there}.mlp.down_proj.weight"],
        }
    model.load_state_dict(taken)
    return model


def train(model: nn.Module, out: Path, perturb: tt.Perturb | None = None) -> None:
    """One step with AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tracer = tt.trace(model, optimizer, out=out, steps=[0], perturb=perturb)
    ids = torch.randint(VOCABULARY, (2, TOKENS + 1), generator=torch.Generator().manual_seed(1))
    with tracer.step(0):
        logits = model(ids[:, :-1])
        logits = logits if isinstance(logits, Tensor) else logits.logits
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
        tracer.loss(loss).backward()
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        tracer.main_grads()
        tracer.grad_norm(norm)
        optimizer.step()
    tracer.close()


def main(out: Path) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    train(hugging_face(), out / "reference.h5")
    train(hugging_face(), out / "noise.h5", tt.Perturb(1))
    train(fused(hugging_face(), swapped=False), out / "fused.h5")
    train(fused(hugging_face(), swapped=True), out / "swapped.h5")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
