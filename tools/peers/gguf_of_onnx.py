#!/usr/bin/env python3
"""gguf_of_onnx.py MODEL OUT [MULTIPLE]: a split Llama in ONNX (llm_config.json, block_N.onnx, lm.onnx) as GGUF, f32.

The weights are the model's own, so that llama.cpp and llmc quantize the same numbers; the file has no vocabulary, as ids are
given. With MULTIPLE, zeros widen the hidden state to a multiple of it, which changes no result: norms are scaled for
the other width. quality.py runs this in the chroot of setup.sh, and checks the result: llama.cpp must compute llmc's perplexity with it."""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
import onnx
from onnx import numpy_helper

MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
TO_HIDDEN = ("attn_output", "ffn_down")


class Graph:
    def __init__(self, path: Path) -> None:
        self.path, self.nodes = path, list(onnx.load(path).graph.node)
        graph = onnx.load(path).graph
        self.constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        for node in self.nodes:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)

    def fail(self, text: str) -> None:
        sys.exit(f"gguf_of_onnx.py: {self.path}: {text}")

    def matrices(self) -> list:
        """Weights of the products, [inputs, outputs], in the order of the nodes."""
        return [self.constants[n.input[1]] for n in self.nodes
                if n.op_type == "MatMul" and n.input[1] in self.constants and self.constants[n.input[1]].ndim == 2]

    def vectors(self, length: int) -> list:
        """Constant factors of a length in the order of the nodes: the weights of the norms."""
        return [self.constants[name] for n in self.nodes if n.op_type == "Mul" for name in n.input
                if name in self.constants and self.constants[name].shape == (length,)]

    def epsilon(self) -> float:
        means = {n.output[0] for n in self.nodes if n.op_type == "ReduceMean"}
        for n in self.nodes:
            if n.op_type == "Add" and means & set(n.input):
                return float(next(self.constants[name] for name in n.input if name in self.constants))
        return self.fail("no norm with an epsilon")

    def rope_base(self, head_dim: int) -> float:
        for values in self.constants.values():
            if values.size == head_dim // 2 and values.dtype == np.float32 and values.flat[0] == 1:
                return float(values.flat[1].astype(np.float64) ** (-head_dim / 2))
        return self.fail("no frequencies of RoPE")


def interleaved(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q or k, [outputs, inputs]: from halves of a head turned by RoPE to neighbours, llama.cpp's order for Llama."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def main() -> None:
    folder = Path(sys.argv[1])
    config = json.loads((folder / "llm_config.json").read_text())
    hidden, layers, (kv_heads, head_dim) = config["hidden_size"], config["layer_nums"], config["key_value_shape"][3:5]
    embedding = np.fromfile(folder / "embeddings_bf16.bin", np.uint16).astype(np.uint32) << 16
    embedding = embedding.view(np.float32).reshape(-1, hidden)
    blocks = [Graph(folder / f"block_{i}.onnx") for i in range(layers)]
    for block in blocks:
        if len(block.matrices()) != len(MATRICES):
            block.fail(f"has {len(block.matrices())} matrices; a block of Llama has {len(MATRICES)}")
    heads = blocks[0].matrices()[0].shape[1] // head_dim
    head = Graph(folder / "lm.onnx").matrices()[0].T
    multiple = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    width = -(-hidden // multiple) * multiple
    writer = gguf.GGUFWriter(sys.argv[2], "llama")
    writer.add_name(folder.name)
    writer.add_context_length(config.get("max_position_embeddings", 2048))
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(blocks[0].matrices()[4].shape[1])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(blocks[0].rope_base(head_dim))
    writer.add_layer_norm_rms_eps(blocks[0].epsilon() * hidden / width)
    writer.add_file_type(0)
    writer.add_vocab_size(len(embedding))
    writer.add_tokenizer_model("no_vocab")

    def add(name: str, values: np.ndarray, wide: int) -> None:
        """A tensor whose dimension `wide` is that of the hidden state."""
        zeros = [(0, 0)] * values.ndim
        zeros[wide] = (0, width - hidden)
        writer.add_tensor(name + ".weight", np.ascontiguousarray(np.pad(values, zeros), np.float32))

    def add_norm(name: str, values: np.ndarray) -> None:
        add(name, values * np.float32(np.sqrt(hidden / width)), 0)

    add("token_embd", embedding, 1)
    if not np.array_equal(embedding, head):
        add("output", head, 1)
    for i, block in enumerate(blocks):
        norms = block.vectors(hidden)
        add_norm(f"blk.{i}.attn_norm", norms[0])
        add_norm(f"blk.{i}.ffn_norm", norms[1])
        if i == layers - 1:
            add_norm("output_norm", norms[2])
        for name, matrix in zip(MATRICES, block.matrices()):
            turned = {"attn_q": heads, "attn_k": kv_heads}.get(name)
            add(f"blk.{i}.{name}", interleaved(matrix.T, turned) if turned else matrix.T, 0 if name in TO_HIDDEN else 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
