"""Models of transformers trained alone, with DDP, FSDP2 or tp_plan="auto", as a user would: the
tracer's lines end in `# tt`."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

import peft
import torch
import transformers
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

import ttrace_torch as tt  # tt

STEPS, MICRO_BATCHES, TOKENS, WORDS = 2, 4, 8, 64
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}
EXPERTS = {"num_experts_per_tok": 2}
CONFIGS = {
    "llama": ("LlamaConfig", SIZES),
    "qwen3": ("Qwen3Config", {**SIZES, "head_dim": 8}),
    "mixtral": ("MixtralConfig", {**SIZES, **EXPERTS, "num_local_experts": 4}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {**SIZES, **EXPERTS, "head_dim": 8, "num_experts": 4, "moe_intermediate_size": 32},
    ),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
        | dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
    ),
}


def config_of(case):
    name, settings = case.get("config") or CONFIGS[case["model"]]
    config = getattr(transformers, name)(**settings)
    config._attn_implementation = case.get("attention", "sdpa")
    return config


def whole_model(case):
    """The model in one piece, with the same random weights on every rank."""
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config_of(case))


def batch_of(step, number):
    generator = torch.Generator().manual_seed(100 * step + number)
    return torch.randint(WORDS, (2, TOKENS), generator=generator)


def sharded_when_loaded(case):
    """The model cut by its own plan, as transformers loads it."""
    folder = [tempfile.mkdtemp() if distributed.get_rank() == 0 else None]
    distributed.broadcast_object_list(folder)
    if distributed.get_rank() == 0:
        whole_model(case).save_pretrained(folder[0])
    distributed.barrier()
    cls = transformers.AutoModelForCausalLM
    kept = case.get("attention", "sdpa")
    return cls.from_pretrained(Path(folder[0]), tp_plan="auto", attn_implementation=kept)


def parallel(case):
    """The model made parallel, the data-parallel ranks, and this one's number among them."""
    kind = case["kind"]
    if kind == "tp":
        return sharded_when_loaded(case), 1, 0
    model = whole_model(case)
    if case.get("lora"):
        # A way of peft that begins as if it were not there says which setting makes it begin so.
        cls, begins = case.get("way", ["LoraConfig", "init_lora_weights"])
        settings = {"target_modules": ["q_proj", "v_proj"], **case.get("peft", {})}
        if begins:
            settings[begins] = False
        # What is put before the tokens has no modules that it would change.
        settings = {name: value for name, value in settings.items() if value is not None}
        model = peft.get_peft_model(model, getattr(peft, cls)(**settings))
    if kind == "plain":
        return model, 1, 0
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        mesh = init_device_mesh("cpu", (distributed.get_world_size(),), mesh_dim_names=("dp",))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if case.get("bf16") else None)
        inner = model.get_base_model() if case.get("lora") else model
        inner = getattr(inner, "model", None) or inner.transformer
        for layer in getattr(inner, "layers", None) or inner.h:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
    return model, distributed.get_world_size(), distributed.get_rank()


def norm_of(model):
    """The norm of all gradients, which torch cannot compute over several meshes."""
    squares = [p.grad.square().sum() for p in model.parameters() if p.grad is not None]
    return torch.stack([getattr(s, "full_tensor", lambda s=s: s)() for s in squares]).sum().sqrt()


def planted(model, case):
    """Plants a fault into the model: a weight whose rows stand in another order, or one layer whose
    ranks do not sum what they should: its gradients (FSDP2), or its output (tp_plan)."""
    if case.get("fault") == "wrong_shard":
        weight = dict(model.named_parameters())["model.layers.1.mlp.up_proj.weight"]
        with torch.no_grad():
            weight.to_local().copy_(weight.to_local().flip(0))
    if case.get("fault") == "layer_no_sync":
        if case["kind"] == "fsdp2":
            _keep_gradients(model.model.layers[1])
        else:
            weight = model.model.layers[1].mlp.down_proj.weight
            model.model.layers[1].mlp.down_proj.forward = lambda x: nn.functional.linear(
                DTensor.from_local(x, weight.device_mesh, [Shard(-1)], run_check=False), weight
            ).to_local()


def _keep_gradients(layer):
    """Each rank keeps its own gradients of an FSDP2 layer."""

    class Kept:
        def allocate(self, size, *, dtype, device):
            return torch.empty(*size, dtype=dtype, device=device)

        def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
            output_tensor.copy_(input_tensor.chunk(group.size())[group.rank()])

    layer.set_custom_reduce_scatter(Kept())


def main(case, out):
    model, ranks, rank = parallel(case)
    planted(model, case)
    fault = case.get("fault")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, eps=1e-3)
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    tracer = tt.trace(model, optimizer, out=out, perturb=noise)  # tt
    share = case.get("micro_batches", MICRO_BATCHES) // ranks
    losses = []
    for step in range(STEPS):
        with tracer.step(step):  # tt
            for number in range(share):
                given = rank * share + number
                ids = batch_of(step, given ^ 1 if fault == "swapped" else given)
                with model.no_sync() if fault == "no_sync" else nullcontext():
                    loss = model(input_ids=ids, labels=ids).loss
                    tracer.loss(loss)  # tt
                    (loss / (1 if fault == "wrong_scale" else share)).backward()
                losses.append(loss.item())
            tracer.grad_norm(norm_of(model))  # tt
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()  # tt
    return losses
