#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a shipped folder's graphs node by node with numpy and compares with its golden.json: an
evaluator that shares no code with torch, so that an export bug cannot be in both."""

import argparse
import json
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

DTYPES = {1: np.float32, 7: np.int64, 9: np.bool_}
MASKED = np.finfo(np.float32).min


def slice_op(x, starts, ends, axes, steps):
    index = [slice(None)] * x.ndim
    for s, e, a, step in zip(starts, ends, axes, steps):
        index[a] = slice(int(s), int(min(e, x.shape[a])), int(step))
    return x[tuple(index)]


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def unsqueeze(x, axes):
    for a in sorted(int(i) for i in axes):
        x = np.expand_dims(x, a)
    return x


def divide(a, b):
    # ONNX divides integers toward zero; here both are positive sizes
    return a // b if np.issubdtype(a.dtype, np.integer) else a / b


OPS = {
    "Add": lambda a, i: i[0] + i[1],
    "Cast": lambda a, i: i[0].astype(DTYPES[a["to"]]),
    "Concat": lambda a, i: np.concatenate(i, axis=a["axis"]),
    "Constant": lambda a, i: numpy_helper.to_array(a["value"]),
    "ConstantOfShape": lambda a, i: np.full(i[0], numpy_helper.to_array(a["value"])[0]),
    "Cos": lambda a, i: np.cos(i[0]),
    "Div": lambda a, i: divide(i[0], i[1]),
    "Equal": lambda a, i: i[0] == i[1],
    "Expand": lambda a, i: i[0] * np.ones(i[1], i[0].dtype),
    "Gather": lambda a, i: np.take(i[0], i[1], axis=a.get("axis", 0)),
    "Identity": lambda a, i: i[0],
    "MatMul": lambda a, i: i[0] @ i[1],
    "Mul": lambda a, i: i[0] * i[1],
    "Neg": lambda a, i: -i[0],
    "Pow": lambda a, i: i[0] ** i[1],
    "ReduceMean": lambda a, i: i[0].mean(axis=tuple(a["axes"]), keepdims=bool(a["keepdims"])),
    "Reshape": lambda a, i: i[0].reshape(i[1]),
    "Shape": lambda a, i: np.array(i[0].shape, np.int64),
    "Sigmoid": lambda a, i: 1 / (1 + np.exp(-i[0])),
    "Sin": lambda a, i: np.sin(i[0]),
    "Slice": lambda a, i: slice_op(*i),
    "Softmax": lambda a, i: softmax(i[0], a["axis"]),
    "Split": lambda a, i: np.split(i[0], np.cumsum(i[1])[:-1], axis=a["axis"]),
    "Sqrt": lambda a, i: np.sqrt(i[0]),
    "Squeeze": lambda a, i: np.squeeze(i[0], axis=tuple(int(x) for x in i[1])),
    "Transpose": lambda a, i: i[0].transpose(a["perm"]),
    "Unsqueeze": lambda a, i: unsqueeze(i[0], i[1]),
    "Where": lambda a, i: np.where(i[0], i[1], i[2]),
}


class Graph:
    def __init__(self, path):
        model = onnx.load(path)
        onnx.checker.check_model(model)
        self.graph = model.graph
        self.weights = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.nodes = [(n.op_type, list(n.input), list(n.output),
                       {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute})
                      for n in self.graph.node]

    def run(self, **inputs):
        values = dict(self.weights, **inputs)
        for op, names, outputs, attributes in self.nodes:
            result = OPS[op](attributes, [values[n] for n in names])
            for name, value in zip(outputs, result if isinstance(result, list) else [result]):
                values[name] = value
        return [values[o.name] for o in self.graph.output]


class Runner:
    def __init__(self, folder):
        config = json.load(open(os.path.join(folder, "llm_config.json")))
        bits = np.fromfile(os.path.join(folder, "embeddings_bf16.bin"), "<u2").astype(np.uint32) << 16
        self.embedding = bits.view(np.float32).reshape(-1, config["hidden_size"])
        self.blocks = [Graph(os.path.join(folder, f"block_{i}.onnx"))
                       for i in range(config["layer_nums"])]
        self.head = Graph(os.path.join(folder, "lm.onnx"))
        self.shape = config["key_value_shape"]
        self.reset()

    def reset(self):
        self.caches = [np.zeros(self.shape, np.float32) for _ in self.blocks]

    def step(self, ids):
        past, seq = self.caches[0].shape[2], len(ids)
        mask = np.triu(np.full((seq, past + seq), MASKED, np.float32), past + 1)[None, None]
        positions = np.arange(past, past + seq, dtype=np.int64)[None]
        x = self.embedding[ids][:, None, :]
        for i, block in enumerate(self.blocks):
            x, self.caches[i] = block.run(inputs_embeds=x, attention_mask=mask,
                                          position_ids=positions, past_key_values=self.caches[i])
        return self.head.run(hidden_states=x.reshape(1, -1))[0][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    args = parser.parse_args()
    golden = json.load(open(os.path.join(args.folder, "golden.json")))
    runner = Runner(args.folder)
    worst, good = 0.0, True
    for case in golden["cases"]:
        runner.reset()
        logits = runner.step(case["prompt_ids"])
        worst = max([worst] + [abs(logits[i] - v) for i, v in case["first_logits_top8"]])
        for n, want in enumerate(case["greedy_ids"]):
            if int(logits.argmax()) != want:
                print(f"{case['prompt']!r}: id {n} is {int(logits.argmax())}, golden says {want}")
                good = False
                break
            logits = runner.step([want])
            if n == 0:
                worst = max([worst] + [abs(logits[i] - v) for i, v in case["second_logits_top8"]])
    print("graphs and golden agree" if good else "DIFFERENT", f"largest logit difference {worst:.2e}")
    sys.exit(0 if good and worst < 1e-3 else 1)


if __name__ == "__main__":
    main()
