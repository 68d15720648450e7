#!/usr/bin/env python3
"""How many rows of the head a greedy or top-k choice needs if the upper bits of all codes are known.

Reproduces the table of docs/decisions/0019-head-screening.md. Not part of the build: needs
python3-numpy, python3-onnx and python3-onnxruntime.

    tools/research/head_screening.py MODEL_DIR [--top 40]

MODEL_DIR: block_i.onnx (the last one with the final norm, for the last token alone), lm.onnx,
embeddings_bf16.bin, and golden.json, whose greedy texts are run. The head is rounded to 6 bits with
a scale for each 32 weights, in the plain and in the Hadamard basis (docs/decisions/0016). The upper
bits of a code give a partial sum; the lower ones change it by at most the sum over the blocks of
|lower part| * |x| (Cauchy-Schwarz), or by that of the whole row. A row is kept if its sum plus this
bound reaches the k-th largest sum minus its bound.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

BLOCK, BITS = 32, 6
SCALE_BITS = 16 / BLOCK  # an f16 scale for each block


def session(path):
    model = onnx.load(str(path))
    for value in model.graph.input:
        if value.name == "position_ids":  # traced with a fixed length
            for name, dim in zip("ab", value.type.tensor_type.shape.dim):
                dim.dim_param = name
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def hidden_rows(folder, ids):
    """The head's inputs after each of `ids`."""
    width = json.loads((folder / "llm_config.json").read_text())["hidden_size"]
    table = np.fromfile(folder / "embeddings_bf16.bin", dtype=np.uint16).astype(np.uint32) << 16
    x = table.view(np.float32).reshape(-1, width)[ids].reshape(len(ids), 1, width)
    blocks = sorted(folder.glob("block_*.onnx"), key=lambda path: int(path.stem[6:]))
    for block in blocks:
        run = session(block)
        inputs = {value.name: value for value in run.get_inputs()}
        rows = next(name for name in inputs if name not in ("attention_mask", "position_ids", "past_key_values"))
        past = [d if isinstance(d, int) else 1 for d in inputs["past_key_values"].shape]

        def output(n):
            mask = np.triu(np.full((n, n), -1e9, np.float32), 1).reshape(1, 1, n, n)
            feed = {rows: x[:n], "attention_mask": mask, "position_ids": np.arange(n)[None, :],
                    "past_key_values": np.zeros(past, np.float32)}
            return run.run(None, {name: feed[name] for name in inputs})[0]

        one_row = output(len(ids)).size == width
        x = (np.concatenate([output(n) for n in range(1, len(ids) + 1)]) if one_row else output(len(ids)))
        x = x.reshape(len(ids), 1, width)
    return x.reshape(len(ids), width)


def hadamard(width):
    """Transform of groups of 256, the rest in one group of a power of two."""
    transform = np.zeros((width, width))
    at = 0
    while at < width:
        size = min(256, width - at)
        size = size & -size
        matrix = np.array([[1.0]])
        while len(matrix) < size:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        transform[at:at + size, at:at + size] = matrix / np.sqrt(size)
        at += size
    return transform


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--top", type=int, default=40)
    args = parser.parse_args()
    cases = json.loads((args.model / "golden.json").read_text())["cases"]
    hidden = np.concatenate([hidden_rows(args.model, c["prompt_ids"] + c["greedy_ids"][:-1]) for c in cases])
    head = session(args.model / "lm.onnx")
    width = hidden.shape[1]
    weights = np.stack([head.run(None, {"hidden_states": row[None]})[0][0] for row in np.eye(width, dtype=np.float32)], 1)
    print(f"{len(hidden)} positions, {weights.shape[0]} rows of {width}")
    for basis in ("plain", "hadamard"):
        transform = np.eye(width) if basis == "plain" else hadamard(width)
        blocks = (weights @ transform).reshape(len(weights), -1, BLOCK)
        x = (hidden @ transform).reshape(len(hidden), -1, BLOCK)
        scale = np.abs(blocks).max(2, keepdims=True) / (2 ** (BITS - 1) - 1)
        scale[scale == 0] = 1
        codes = np.rint(blocks / scale).astype(int) + 2 ** (BITS - 1)
        for known in range(2, BITS):
            step = 2 ** (BITS - known)
            upper = codes // step * step + (step - 1) / 2
            known_sums = np.einsum("rbk,tbk->tr", (upper - 2 ** (BITS - 1)) * scale, x, optimize=True)
            lower = np.sqrt((((codes - upper) * scale) ** 2).sum(2))
            size = np.sqrt((x ** 2).sum(2))
            rows = np.sqrt((size ** 2).sum(1))[:, None] * np.sqrt((lower ** 2).sum(1))[None, :]
            for name, bound in (("blocks", size @ lower.T), ("rows", rows)):
                kept = []
                for k in (1, args.top):
                    least = np.partition(known_sums - bound, -k, axis=1)[:, -k]
                    kept.append(((known_sums + bound) >= least[:, None]).mean())
                share = [(known + SCALE_BITS + part * (BITS - known)) / (BITS + SCALE_BITS) for part in kept]
                print(f"{basis:9} {known} of {BITS} bits, bound by {name:6}: greedy keeps {kept[0]:7.4%}, reads "
                      f"{share[0]:.3f}; top {args.top} keeps {kept[1]:7.4%}, reads {share[1]:.3f}")


main()
