"""Models of other kinds under DDP on two ranks, each against itself alone."""

from __future__ import annotations

from hunt.other_models import MODELS

LAUNCHER = "launch_transformers.py"
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TWO_STACKS = {
    "vocab_size": 64,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "dropout": 0.0,
}
T5 = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
T5 |= {"dropout_rate": 0.0, "decoder_start_token_id": 0}
WHISPER = {**TWO_STACKS, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32}
WHISPER |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SWIN = {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "image_size": 16, "patch_size": 2}
SWIN |= {"window_size": 2, "drop_path_rate": 0.0, "num_labels": 5}
WAV2VEC = {**SMALL, "vocab_size": 32, "intermediate_size": 32, "layerdrop": 0.0}
WAV2VEC |= dict.fromkeys(("hidden_dropout", "attention_dropout", "feat_proj_dropout"), 0.0)
WAV2VEC |= {"final_dropout": 0.0, "activation_dropout": 0.0, "apply_spec_augment": False}
WAV2VEC |= {"conv_dim": [8, 8], "conv_stride": [4, 4], "conv_kernel": [8, 4]}
WAV2VEC |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8}
WAV2VEC |= {"num_conv_pos_embedding_groups": 2, "ctc_loss_reduction": "mean"}
NEXT = {**SMALL, "vocab_size": 64, "intermediate_size": 32, "num_hidden_layers": 4}
NEXT |= {"num_key_value_heads": 2, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2}
NEXT |= {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 8}
NEXT |= {"linear_value_head_dim": 8, "moe_intermediate_size": 16}
NEXT |= {"shared_expert_intermediate_size": 16}
BERT = {**SMALL, **UNDROPPED, "vocab_size": 64, "intermediate_size": 32}
VIT = {**SMALL, **UNDROPPED, "intermediate_size": 32, "image_size": 16, "patch_size": 4}
MAMBA = {"vocab_size": 64, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2}
MAMBA_2 = {**MAMBA, "state_size": 8, "num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4}

OF_TRANSFORMERS = {
    "t5": ("T5ForConditionalGeneration", "T5Config", T5, "words"),
    "bart": ("BartForConditionalGeneration", "BartConfig", TWO_STACKS, "words"),
    "bert": ("BertForMaskedLM", "BertConfig", BERT, "words"),
    "vit": ("ViTForImageClassification", "ViTConfig", {**VIT, "num_labels": 5}, "images"),
    "swin": ("SwinForImageClassification", "SwinConfig", SWIN, "images"),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", WHISPER, "spectrograms"),
    "wav2vec2": ("Wav2Vec2ForCTC", "Wav2Vec2Config", WAV2VEC, "waves"),
    "mamba": ("MambaForCausalLM", "MambaConfig", MAMBA, "words"),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config", MAMBA_2, "words"),
    "qwen3_next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", NEXT, "words"),
}
UNUSED = {"shared", "wav2vec2"}  # have parameters that no micro-batch uses


def row(name, case, **more):
    candidate = {**case, "ddp": True, "unused": name in UNUSED}
    named = {"row": f"{name}_ddp", "launcher": LAUNCHER, "world": 2}
    return {**named, "case": candidate, "reference": case, **more}


SCRIPT = {"script": "hunt.train_other_models"}
ROWS = [
    *(row(name, {**SCRIPT, "model": name}) for name in MODELS),
    row("unknown_optimizer", {**SCRIPT, "model": "perceptron", "optimizer": "lion"}),
    *(row(name, {**SCRIPT, "of_transformers": list(o)}) for name, o in OF_TRANSFORMERS.items()),
]
