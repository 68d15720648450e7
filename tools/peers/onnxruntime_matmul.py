#!/usr/bin/env python3
"""onnxruntime_matmul.py ROWS COLUMNS TOKENS THREADS REPETITIONS: times onnxruntime's MatMulNBits.

4 bits, blocks of 32, f32 scales, no zero points, accuracy level 4 (int8 activations): y[TOKENS][ROWS] = x . w^T. The graph holds as many
matrices, one after the other, as one run should take; prints JSON with seconds of each repetition for one matrix. compare.py runs this
with any Python that has onnxruntime and numpy. The model is written field by field: Debian's onnx and onnxruntime do not go into one
process."""
import json
import sys
import time

import numpy as np
import onnxruntime

BLOCK = 32
FLOAT, UINT8 = 1, 2  # TensorProto.DataType


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number: int, value: "int | str | bytes") -> bytes:
    """A field of a protobuf message: a number, a text, or the bytes of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, kind: int, array: np.ndarray) -> bytes:
    dims = b"".join(field(1, d) for d in array.shape)
    return dims + field(2, kind) + field(8, name) + field(9, array.tobytes())


def attribute(name: str, value: int) -> bytes:
    return field(1, name) + field(3, value) + field(20, 2)  # AttributeProto.INT


def value_info(name: str, dims: tuple) -> bytes:
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, shape)))


def build(rows: int, columns: int, tokens: int, matrices: int, random: np.random.Generator) -> bytes:
    graph = field(2, "matmul")
    for i in range(matrices):
        codes = random.integers(0, 256, (rows, columns // BLOCK, BLOCK // 2), np.uint8)
        scales = random.random(rows * columns // BLOCK, np.float32) * np.float32(0.01)
        node = field(1, "x") + field(1, f"b{i}") + field(1, f"s{i}") + field(2, f"y{i}") + field(4, "MatMulNBits")
        for name, value in (("K", columns), ("N", rows), ("bits", 4), ("block_size", BLOCK), ("accuracy_level", 4)):
            node += field(5, attribute(name, value))
        graph += field(1, node + field(7, "com.microsoft"))
        graph += field(5, tensor(f"b{i}", UINT8, codes)) + field(5, tensor(f"s{i}", FLOAT, scales))
        graph += field(12, value_info(f"y{i}", (tokens, rows)))
    graph += field(11, value_info("x", (tokens, columns)))
    opsets = field(8, field(1, "") + field(2, 17)) + field(8, field(1, "com.microsoft") + field(2, 1))
    return field(1, 8) + field(7, graph) + opsets  # IR version 8


def main() -> None:
    rows, columns, tokens, threads, repetitions = map(int, sys.argv[1:6])
    # Enough work in one run that calling it does not count.
    matrices = max(1, min(8, int(2e9 / (rows * columns * tokens))))
    random = np.random.default_rng(1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(build(rows, columns, tokens, matrices, random), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    # A binding does not keep alive what it is given.
    x = random.standard_normal((tokens, columns), np.float32)
    outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((tokens, rows), np.float32)) for _ in range(matrices)]
    binding.bind_cpu_input("x", x)
    for i, output in enumerate(outputs):
        binding.bind_ortvalue_output(f"y{i}", output)
    seconds = []
    for repetition in range(repetitions + 1):
        started = time.perf_counter()
        session.run_with_iobinding(binding)
        if repetition > 0:  # the first one warms up
            seconds.append((time.perf_counter() - started) / matrices)
    print(json.dumps({"version": onnxruntime.__version__, "matrices": matrices, "seconds": seconds}))


main()
