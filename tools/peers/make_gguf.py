#!/usr/bin/env python3
"""make_gguf.py SHAPE OUT: a GGUF file without vocabulary, f16, with random weights of a shape.

SHAPE is JSON: name, hidden, ffn, layers, heads, kv_heads, head_dim, vocabulary, tied, bias. compare.py runs this in the chroot of
setup.sh with the shapes of llmc-random-model. Speed depends on the shape, not on the numbers."""
import json
import sys

import gguf
import numpy as np

shape = json.loads(sys.argv[1])
hidden, ffn, vocabulary = shape["hidden"], shape["ffn"], shape["vocabulary"]
heads, kv_heads, head_dim = shape["heads"], shape["kv_heads"], shape["head_dim"]
random = np.random.default_rng(1)
writer = gguf.GGUFWriter(sys.argv[2], "qwen2" if shape["bias"] else "llama", use_temp_file=True)
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
if not shape["bias"]:
    writer.add_rope_dimension_count(head_dim)


def matrix(name: str, rows: int, columns: int) -> None:
    deviation = 0.7 / np.sqrt(columns)  # activations neither grow nor vanish
    writer.add_tensor(name, (random.standard_normal((rows, columns), np.float32) * deviation).astype(np.float16))


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
    matrix(block + "ffn_gate.weight", ffn, hidden)
    matrix(block + "ffn_up.weight", ffn, hidden)
    matrix(block + "ffn_down.weight", hidden, ffn)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
