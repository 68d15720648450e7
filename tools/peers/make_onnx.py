#!/usr/bin/env python3
"""make_onnx.py NAME FOLDER [--layers N]: a model that is no plain decoder, with random weights, as Optimum exports it.

NAME is t5-base, t5-large, whisper-small or bert-base. BERT becomes model.onnx; the others become encoder_model.onnx,
decoder_model.onnx and decoder_with_past_model.onnx. The operators, their order and the names of inputs and outputs are those of
torch.onnx's exports of transformers' models at operator set 18, with constant shapes where an exporter computes them. The weights
are f32, in NAME.onnx_data beside each graph. A weight's values depend on its name, so that the files of a model agree. compare
scripts run this in the chroot of setup.sh; speed depends on the shape, not on the numbers."""
import argparse
import json
import math
import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LOWEST = float(np.finfo(np.float32).min)
SHAPES = {
    "t5-base": {"form": "t5", "hidden": 768, "ffn": 3072, "layers": 12, "heads": 12, "vocabulary": 32128},
    "t5-large": {"form": "t5", "hidden": 1024, "ffn": 4096, "layers": 24, "heads": 16, "vocabulary": 32128},
    "whisper-small": {"form": "whisper", "hidden": 768, "ffn": 3072, "layers": 12, "heads": 12, "vocabulary": 51865,
                      "bands": 80, "frames": 3000, "positions": 448},
    "bert-base": {"form": "bert", "hidden": 768, "ffn": 3072, "layers": 12, "heads": 12, "vocabulary": 30522, "positions": 512},
}


class Graph:
    """One file: nodes are appended, weights go to the data file as they are named."""

    def __init__(self, path: Path, shape: dict):
        self.path, self.shape, self.dim = path, shape, shape["hidden"] // shape["heads"]
        self.nodes, self.inputs, self.outputs, self.initializers, self.known = [], [], [], [], {}
        self.data = open(f"{path}_data", "wb")

    def op(self, kind: str, *inputs: str, result: str = "", **attributes) -> str:
        name = result or f"/{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{name}_node", **attributes))
        return name

    def constant(self, value, kind=np.float32) -> str:
        array = np.array(value, kind)
        key = f"constant_{array.dtype}_{'x'.join(map(str, array.shape))}_{'_'.join(map(str, array.ravel()))}"
        if key not in self.known:
            self.known[key] = key
            self.initializers.append(numpy_helper.from_array(array, key))
        return key

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def integer(self, value: int) -> str:
        return self.constant(value, np.int64)

    def weight(self, name: str, *dims: int, deviation: float = 0.0, mean: float = 0.0, transposed: bool = False) -> str:
        """Matrices [inputs, outputs] keep the size of activations; `transposed` ones are stored the other way round."""
        key = name + (".T" if transposed else "")
        if key in self.known:
            return key
        self.known[key] = key
        deviation = deviation or (0.7 / math.sqrt(dims[0]) if len(dims) == 2 else 0.02)
        random = np.random.Generator(np.random.SFC64(zlib.crc32(name.encode())))
        values = random.standard_normal(dims, np.float32)
        values *= deviation
        values += mean
        if transposed:
            values, dims = np.ascontiguousarray(values.T), dims[::-1]
        tensor = TensorProto(name=key, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
        place = {"location": f"{self.path.name}_data", "offset": self.data.tell(), "length": values.nbytes}
        for field, value in place.items():
            tensor.external_data.add(key=field, value=str(value))
        self.data.write(values.data)
        self.initializers.append(tensor)
        return key

    def input(self, name: str, dims: list, kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def output(self, name: str, dims: list) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))

    def save(self) -> None:
        self.data.close()
        graph = helper.make_graph(self.nodes, "main_graph", self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8, producer_name="make_onnx.py")
        onnx.save(model, self.path)

    # ---- what all models have

    def linear(self, name: str, x: str, inputs: int, outputs: int, bias: bool = True) -> str:
        y = self.op("MatMul", x, self.weight(name, inputs, outputs))
        return self.op("Add", self.weight(f"{name}.bias", outputs), y) if bias else y

    def embedding(self, name: str, rows: int, ids: str) -> str:
        return self.op("Gather", self.weight(name, rows, self.shape["hidden"], deviation=1), ids)

    def size(self, x: str, axis: int) -> str:
        return self.op("Gather", self.op("Shape", x), self.integer(axis))

    def heads(self, x: str) -> str:
        """[batch, heads, tokens, dim] of [batch, tokens, hidden]."""
        return self.op("Transpose", self.op("Reshape", x, self.ints(0, -1, self.shape["heads"], self.dim)), perm=[0, 2, 1, 3])

    def attend(self, q: str, k: str, v: str, bias: str) -> str:
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        if bias:
            scores = self.op("Add", scores, bias)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        return self.op("Reshape", self.op("Transpose", mixed, perm=[0, 2, 1, 3]), self.ints(0, -1, self.shape["hidden"]))

    def layer_norm(self, name: str, x: str) -> str:
        hidden = self.shape["hidden"]
        return self.op("LayerNormalization", x, self.weight(f"{name}.weight", hidden, mean=1), self.weight(f"{name}.bias", hidden),
                       axis=-1, epsilon=1e-5)

    def rms_norm(self, name: str, x: str) -> str:
        mean = self.op("ReduceMean", self.op("Pow", x, self.constant(2)), self.ints(-1))
        inverse = self.op("Div", self.constant(1), self.op("Sqrt", self.op("Add", mean, self.constant(1e-6))))
        return self.op("Mul", self.weight(f"{name}.weight", self.shape["hidden"], mean=1), self.op("Mul", x, inverse))

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.constant(1))), self.constant(0.5))

    def cast(self, x: str, kind: int) -> str:
        return self.op("Cast", x, to=kind)

    def masked(self, mask: str) -> str:
        """Biases [batch, 1, 1, tokens] of a mask with 1 for visible tokens."""
        wide = self.op("Unsqueeze", self.op("Unsqueeze", mask, self.ints(1)), self.ints(2))
        return self.op("Mul", self.op("Sub", self.constant(1), self.cast(wide, TensorProto.FLOAT)), self.constant(LOWEST))

    def positions(self, past: str, count: str) -> tuple:
        """Those of the new tokens [tokens, 1], and of all [past + tokens]."""
        total = self.op("Add", past, count)
        new = self.op("Range", past, total, self.integer(1))
        return self.op("Unsqueeze", new, self.ints(1)), self.op("Range", self.integer(0), total, self.integer(1))

    def causal(self, queries: str, keys: str) -> str:
        seen = self.op("LessOrEqual", keys, queries)
        return self.op("Unsqueeze", self.op("Where", seen, self.constant(0), self.constant(LOWEST)), self.ints(0, 1))

    # ---- caches

    def cache_dims(self, length: str) -> list:
        return ["batch_size", self.shape["heads"], length, self.dim]

    def pasts(self, source: "str | int") -> None:
        for i in range(self.shape["layers"]):
            for side, length in (("decoder", "past_decoder_sequence_length"), ("encoder", source)):
                for half in ("key", "value"):
                    self.input(f"past_key_values.{i}.{side}.{half}", self.cache_dims(length))

    def grown(self, layer: int, half: str, fresh: str, with_past: bool) -> str:
        present = f"present.{layer}.decoder.{half}"
        self.output(present, self.cache_dims("total_sequence_length"))
        if not with_past:
            return self.op("Identity", fresh, result=present)
        return self.op("Concat", f"past_key_values.{layer}.decoder.{half}", fresh, result=present, axis=2)

    def of_source(self, layer: int, half: str, fresh, with_past: bool) -> str:
        """Keys or values of the source; fresh() computes them."""
        if with_past:
            return f"past_key_values.{layer}.encoder.{half}"
        present = f"present.{layer}.encoder.{half}"
        self.output(present, self.cache_dims("encoder_sequence_length"))
        return self.op("Identity", fresh(), result=present)

    def past_length(self, with_past: bool) -> str:
        return self.size("past_key_values.0.decoder.key", 2) if with_past else self.integer(0)

    def logits(self, x: str) -> None:
        """By the embedding's table."""
        vocabulary, hidden = self.shape["vocabulary"], self.shape["hidden"]
        self.op("MatMul", x, self.weight("shared", vocabulary, hidden, deviation=1, transposed=True), result="logits")
        self.output("logits", ["batch_size", "decoder_sequence_length", vocabulary])


# ---- T5: RMS norms before each branch, a bias by distance in the scores, no scale, no biases of products


def t5_distance_bias(g: Graph, name: str, queries: str, keys: str, both_ways: bool) -> str:
    """[1, heads, queries, keys], as in transformers' _relative_position_bucket with 32 buckets up to a distance of 128."""
    distance, buckets = g.op("Sub", keys, queries), 32
    if both_ways:
        buckets //= 2
        ahead = g.cast(g.op("Greater", distance, g.integer(0)), TensorProto.INT64)
        offset, distance = g.op("Mul", ahead, g.integer(buckets)), g.op("Abs", distance)
    else:
        offset, distance = "", g.op("Neg", g.op("Min", distance, g.integer(0)))
    exact = buckets // 2
    ratio = g.op("Log", g.op("Div", g.cast(distance, TensorProto.FLOAT), g.constant(exact)))
    scaled = g.op("Mul", g.op("Div", ratio, g.constant(math.log(128 / exact))), g.constant(buckets - exact))
    far = g.op("Min", g.op("Add", g.cast(scaled, TensorProto.INT64), g.integer(exact)), g.integer(buckets - 1))
    bucket = g.op("Where", g.op("Less", distance, g.integer(exact)), distance, far)
    if offset:
        bucket = g.op("Add", offset, bucket)
    looked = g.op("Gather", g.weight(name, 32, g.shape["heads"], deviation=1), bucket)
    return g.op("Unsqueeze", g.op("Transpose", looked, perm=[2, 0, 1]), g.ints(0))


def t5_project(g: Graph, name: str, x: str) -> str:
    return g.heads(g.linear(name, x, g.shape["hidden"], g.shape["hidden"], bias=False))


def t5_mlp(g: Graph, at: str, x: str) -> str:
    hidden, ffn = g.shape["hidden"], g.shape["ffn"]
    up = g.op("Relu", g.linear(f"{at}.wi", g.rms_norm(f"{at}.ffn_norm", x), hidden, ffn, bias=False))
    return g.op("Add", x, g.linear(f"{at}.wo", up, ffn, hidden, bias=False))


def t5_out(g: Graph, at: str, x: str, attended: str) -> str:
    return g.op("Add", x, g.linear(f"{at}.o", attended, g.shape["hidden"], g.shape["hidden"], bias=False))


def t5_encoder(g: Graph) -> None:
    ids = g.input("input_ids", ["batch_size", "encoder_sequence_length"], TensorProto.INT64)
    mask = g.masked(g.input("attention_mask", ["batch_size", "encoder_sequence_length"], TensorProto.INT64))
    x = g.embedding("shared", g.shape["vocabulary"], ids)
    queries, keys = g.positions(g.integer(0), g.size("input_ids", 1))
    bias = g.op("Add", t5_distance_bias(g, "encoder.distance", queries, keys, True), mask)
    for i in range(g.shape["layers"]):
        at = f"encoder.{i}"
        h = g.rms_norm(f"{at}.norm", x)
        x = t5_out(g, at, x, g.attend(*(t5_project(g, f"{at}.{p}", h) for p in "qkv"), bias))
        x = t5_mlp(g, at, x)
    g.op("Identity", g.rms_norm("encoder.norm", x), result="last_hidden_state")
    g.output("last_hidden_state", ["batch_size", "encoder_sequence_length", g.shape["hidden"]])


def t5_decoder(g: Graph, with_past: bool) -> None:
    mask = g.input("encoder_attention_mask", ["batch_size", "encoder_sequence_length"], TensorProto.INT64)
    ids = g.input("input_ids", ["batch_size", 1 if with_past else "decoder_sequence_length"], TensorProto.INT64)
    if with_past:
        g.pasts("encoder_sequence_length")
    else:
        g.input("encoder_hidden_states", ["batch_size", "encoder_sequence_length", g.shape["hidden"]])
    cross = g.masked(mask)
    queries, keys = g.positions(g.past_length(with_past), g.size("input_ids", 1))
    bias = g.op("Add", t5_distance_bias(g, "decoder.distance", queries, keys, False), g.causal(queries, keys))
    x = g.embedding("shared", g.shape["vocabulary"], ids)
    for i in range(g.shape["layers"]):
        at = f"decoder.{i}"
        h = g.rms_norm(f"{at}.norm", x)
        k = g.grown(i, "key", t5_project(g, f"{at}.k", h), with_past)
        v = g.grown(i, "value", t5_project(g, f"{at}.v", h), with_past)
        x = t5_out(g, at, x, g.attend(t5_project(g, f"{at}.q", h), k, v, bias))
        at += ".cross"
        k = g.of_source(i, "key", lambda at=at: t5_project(g, f"{at}.k", "encoder_hidden_states"), with_past)
        v = g.of_source(i, "value", lambda at=at: t5_project(g, f"{at}.v", "encoder_hidden_states"), with_past)
        x = t5_out(g, at, x, g.attend(t5_project(g, f"{at}.q", g.rms_norm(f"{at}.norm", x)), k, v, cross))
        x = t5_mlp(g, f"decoder.{i}", x)
    g.logits(g.op("Mul", g.rms_norm("decoder.norm", x), g.constant(g.shape["hidden"] ** -0.5)))


# ---- Whisper: layer norms before each branch, GELU, no bias of the keys


def whisper_project(g: Graph, name: str, x: str) -> str:
    hidden = g.shape["hidden"]
    y = g.linear(name, x, hidden, hidden, bias=not name.endswith(".k"))
    return g.heads(g.op("Mul", y, g.constant(g.dim**-0.5)) if name.endswith(".q") else y)


def whisper_out(g: Graph, at: str, x: str, attended: str) -> str:
    return g.op("Add", x, g.linear(f"{at}.o", attended, g.shape["hidden"], g.shape["hidden"]))


def whisper_mlp(g: Graph, at: str, x: str) -> str:
    hidden, ffn = g.shape["hidden"], g.shape["ffn"]
    up = g.gelu(g.linear(f"{at}.fc1", g.layer_norm(f"{at}.ffn_norm", x), hidden, ffn))
    return g.op("Add", x, g.linear(f"{at}.fc2", up, ffn, hidden))


def whisper_encoder(g: Graph) -> None:
    hidden, bands, frames = g.shape["hidden"], g.shape["bands"], g.shape["frames"]
    x = g.input("input_features", ["batch_size", bands, frames])
    for name, inputs, stride in (("conv1", bands, 1), ("conv2", hidden, 2)):
        weights = g.weight(name, hidden, inputs, 3, deviation=0.7 / math.sqrt(3 * inputs))
        x = g.gelu(g.op("Conv", x, weights, g.weight(f"{name}.bias", hidden), kernel_shape=[3], pads=[1, 1], strides=[stride]))
    x = g.op("Add", g.op("Transpose", x, perm=[0, 2, 1]), g.weight("encoder.positions", frames // 2, hidden))
    for i in range(g.shape["layers"]):
        at = f"encoder.{i}"
        h = g.layer_norm(f"{at}.norm", x)
        x = whisper_out(g, at, x, g.attend(*(whisper_project(g, f"{at}.{p}", h) for p in "qkv"), ""))
        x = whisper_mlp(g, at, x)
    g.op("Identity", g.layer_norm("encoder.norm", x), result="last_hidden_state")
    g.output("last_hidden_state", ["batch_size", frames // 2, hidden])


def whisper_decoder(g: Graph, with_past: bool) -> None:
    rows, hidden = g.shape["frames"] // 2, g.shape["hidden"]
    ids = g.input("input_ids", ["batch_size", 1 if with_past else "decoder_sequence_length"], TensorProto.INT64)
    if with_past:
        g.pasts(rows)
    else:
        g.input("encoder_hidden_states", ["batch_size", rows, hidden])
    queries, keys = g.positions(g.past_length(with_past), g.size("input_ids", 1))
    place = g.embedding("decoder.positions", g.shape["positions"], g.op("Transpose", queries, perm=[1, 0]))
    x, bias = g.op("Add", g.embedding("shared", g.shape["vocabulary"], ids), place), g.causal(queries, keys)
    for i in range(g.shape["layers"]):
        at = f"decoder.{i}"
        h = g.layer_norm(f"{at}.norm", x)
        k = g.grown(i, "key", whisper_project(g, f"{at}.k", h), with_past)
        v = g.grown(i, "value", whisper_project(g, f"{at}.v", h), with_past)
        x = whisper_out(g, at, x, g.attend(whisper_project(g, f"{at}.q", h), k, v, bias))
        at += ".cross"
        k = g.of_source(i, "key", lambda at=at: whisper_project(g, f"{at}.k", "encoder_hidden_states"), with_past)
        v = g.of_source(i, "value", lambda at=at: whisper_project(g, f"{at}.v", "encoder_hidden_states"), with_past)
        x = whisper_out(g, at, x, g.attend(whisper_project(g, f"{at}.q", g.layer_norm(f"{at}.norm", x)), k, v, ""))
        x = whisper_mlp(g, f"decoder.{i}", x)
    g.logits(g.layer_norm("decoder.norm", x))


# ---- BERT: layer norms after each branch


def bert(g: Graph) -> None:
    hidden, ffn = g.shape["hidden"], g.shape["ffn"]
    dims = ["batch_size", "sequence_length"]
    ids, mask, types = (g.input(n, dims, TensorProto.INT64) for n in ("input_ids", "attention_mask", "token_type_ids"))
    bias = g.masked(mask)
    x = g.op("Add", g.embedding("words", g.shape["vocabulary"], ids), g.embedding("types", 2, types))
    positions = g.op("Range", g.integer(0), g.size("input_ids", 1), g.integer(1))
    x = g.op("Add", x, g.embedding("positions", g.shape["positions"], g.op("Unsqueeze", positions, g.ints(0))))
    x = g.layer_norm("norm", x)
    for i in range(g.shape["layers"]):
        at = f"{i}"
        q, k, v = (g.heads(g.linear(f"{at}.{p}", x, hidden, hidden)) for p in "qkv")
        attended = g.attend(g.op("Div", q, g.constant(math.sqrt(g.dim))), k, v, bias)
        x = g.layer_norm(f"{at}.norm", g.op("Add", g.linear(f"{at}.o", attended, hidden, hidden), x))
        up = g.gelu(g.linear(f"{at}.up", x, hidden, ffn))
        x = g.layer_norm(f"{at}.ffn_norm", g.op("Add", g.linear(f"{at}.down", up, ffn, hidden), x))
    g.op("Identity", x, result="last_hidden_state")
    g.output("last_hidden_state", [*dims, hidden])


FILES = {
    "bert": {"model.onnx": bert},
    "t5": {"encoder_model.onnx": t5_encoder, "decoder_model.onnx": lambda g: t5_decoder(g, False),
           "decoder_with_past_model.onnx": lambda g: t5_decoder(g, True)},
    "whisper": {"encoder_model.onnx": whisper_encoder, "decoder_model.onnx": lambda g: whisper_decoder(g, False),
                "decoder_with_past_model.onnx": lambda g: whisper_decoder(g, True)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, help="in place of the shape's")
    args = parser.parse_args()
    shape = dict(SHAPES[args.name])
    shape["layers"] = args.layers or shape["layers"]
    args.folder.mkdir(parents=True, exist_ok=True)
    for file, build in FILES[shape["form"]].items():
        graph = Graph(args.folder / file, shape)
        build(graph)
        graph.save()
    if shape["form"] != "bert":
        config = {"decoder_start_token_id": 0, "eos_token_id": 1}
        (args.folder / "generation_config.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    main()
