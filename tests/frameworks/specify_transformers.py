"""Small random models of transformers: OUT/<model>_<dtype>.json, the specification under fake
tensors, and OUT/<model>_<dtype>.h5, a traced step.

Arguments: OUT, then names of models, or nothing for all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import ttrace_torch as tt

_WIDE = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 211,
    "head_dim": 16,
}
_NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
MODELS = {
    "llama": _WIDE,
    "qwen3": _WIDE,
    "gemma3_text": _WIDE,
    "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 211, **_NO_DROPOUT},
}


def build(name, dtype):
    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **MODELS[name])
    config.use_cache = False
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)
    return model.train()


def main(out, names):
    torch.set_num_threads(1)
    out.mkdir(exist_ok=True)
    for name in names or MODELS:
        for dtype in (torch.float32, torch.bfloat16):
            path = out / f"{name}_{str(dtype).removeprefix('torch.')}"
            model = build(name, dtype)
            ids = torch.randint(200, (2, 24), generator=torch.Generator().manual_seed(1))
            tt.specify(model, input_ids=ids, labels=ids, file=path.with_suffix(".json"))
            with tt.trace(model, out=path.with_suffix(".h5")) as tracer, tracer.step(0):
                tracer.loss(model(input_ids=ids, labels=ids).loss).backward()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
