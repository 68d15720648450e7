#!/usr/bin/env python3
"""make_gguf.py SHAPE OUT: a GGUF file without vocabulary, f16, with random weights of a shape.

SHAPE is JSON: name, hidden, ffn, layers, heads, kv_heads, head_dim, vocabulary, experts, used, tied, bias. A shape with experts is
written as OLMoE, with norms of q and k, one with biases as Qwen2, others as Llama. compare.py runs this in the chroot of
setup.sh with the shapes of llmc-random-model. Speed depends on the shape, not on the numbers."""
import json
import math
import sys

import gguf
import numpy as np

shape = json.loads(sys.argv[1])
hidden, ffn, vocabulary = shape["hidden"], shape["ffn"], shape["vocabulary"]
heads, kv_heads, head_dim = shape["heads"], shape["kv_heads"], shape["head_dim"]
experts = shape["experts"]
architecture = "olmoe" if experts else "qwen2" if shape["bias"] else "llama"
random = np.random.default_rng(1)
# Matrices repeat these values, from another place each: billions of new ones take minutes.
pool = random.standard_normal(1 << 24, np.float32)
writer = gguf.GGUFWriter(sys.argv[2], architecture, use_temp_file=True)
writer.add_name(shape["name"])
writer.add_context_length(32768)
writer.add_embedding_length(hidden)
writer.add_block_count(shape["layers"])
writer.add_feed_forward_length(ffn)
writer.add_head_count(heads)
writer.add_head_count_kv(kv_heads)
writer.add_rope_freq_base(1e6)
writer.add_layer_norm_rms_eps(1e-6)
writer.add_file_type(1)
writer.add_vocab_size(vocabulary)
writer.add_tokenizer_model("no_vocab")
if experts:
    writer.add_expert_count(experts)
    writer.add_expert_used_count(shape["used"])
if architecture == "llama":
    writer.add_rope_dimension_count(head_dim)


def matrix(name: str, *dims: int) -> None:
    """[..., outputs, inputs]"""
    count = int(np.prod(dims))
    begin = random.integers(len(pool))
    values = np.tile(pool, (begin + count) // len(pool) + 1)[begin:begin + count].reshape(dims)
    values = values * (0.7 / math.sqrt(dims[-1]))  # activations neither grow nor vanish
    # llama.cpp's converter leaves routers in f32.
    writer.add_tensor(name, values.astype(np.float32 if name.endswith("gate_inp.weight") else np.float16))


def vector(name: str, count: int, mean: float = 0.0) -> None:
    writer.add_tensor(name, (mean + 0.02 * random.standard_normal(count)).astype(np.float32))


matrix("token_embd.weight", vocabulary, hidden)
if not shape["tied"]:
    matrix("output.weight", vocabulary, hidden)
vector("output_norm.weight", hidden, 1)
for layer in range(shape["layers"]):
    block = f"blk.{layer}."
    vector(block + "attn_norm.weight", hidden, 1)
    vector(block + "ffn_norm.weight", hidden, 1)
    for name, rows in (("q", heads * head_dim), ("k", kv_heads * head_dim), ("v", kv_heads * head_dim)):
        matrix(f"{block}attn_{name}.weight", rows, hidden)
        if shape["bias"]:
            vector(f"{block}attn_{name}.bias", rows)
    matrix(block + "attn_output.weight", hidden, heads * head_dim)
    if architecture == "olmoe":
        vector(block + "attn_q_norm.weight", heads * head_dim, 1)
        vector(block + "attn_k_norm.weight", kv_heads * head_dim, 1)
        matrix(block + "ffn_gate_inp.weight", experts, hidden)
    stack, suffix = ([experts], "_exps") if experts else ([], "")
    matrix(f"{block}ffn_gate{suffix}.weight", *stack, ffn, hidden)
    matrix(f"{block}ffn_up{suffix}.weight", *stack, ffn, hidden)
    matrix(f"{block}ffn_down{suffix}.weight", *stack, hidden, ffn)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
