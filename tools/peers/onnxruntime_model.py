#!/usr/bin/env python3
"""Quantizes and times whole models in onnxruntime; encoders.py runs it in the chroot of setup.sh.

    onnxruntime_model.py quantize MODEL.onnx OUT.onnx
    onnxruntime_model.py time MODEL.onnx THREADS REPETITIONS SIZE TOKENS

`quantize` is onnxruntime.quantization.quantize_dynamic with 8-bit weights, as its documentation recommends for transformers;
convolutions stay as they are. `time` prints the seconds of each repetition as JSON, after one that does not count. SIZE is the
value of every open dim: the length of the source or sequence. A decoder with past_key_values generates TOKENS tokens, each from
the last one's best logit; values stay in onnxruntime's memory from step to step. Other models run once."""
import json
import sys
import time

import numpy as np
import onnxruntime as ort


def quantize(source: str, target: str) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gather"])


def value(array: np.ndarray) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_numpy(array)


def first_inputs(session: ort.InferenceSession, size: int) -> dict:
    """Random floats, ones in masks, zeros in other integers. The cache of a decoder has the token that texts begin with."""
    random, made = np.random.default_rng(1), {}
    for given in session.get_inputs():
        dims = [d if isinstance(d, int) else 1 if d == "batch_size" or d.startswith("past") else size for d in given.shape]
        if given.type == "tensor(int64)":
            made[given.name] = value(np.full(dims, "mask" in given.name, np.int64))
        else:
            made[given.name] = value(random.standard_normal(dims, np.float32))
    return made


def generate(session: ort.InferenceSession, inputs: dict, tokens: int) -> None:
    outputs = [o.name for o in session.get_outputs()]
    for _ in range(tokens):
        results = dict(zip(outputs, session.run_with_ort_values(outputs, inputs)))
        best = results.pop("logits").numpy()[0, -1].argmax()
        inputs["input_ids"] = value(np.array([[best]], np.int64))
        for name, result in results.items():
            inputs["past_key_values" + name[len("present"):]] = result


def measure(model: str, threads: int, repetitions: int, size: int, tokens: int) -> list:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    seconds = []
    for repetition in range(repetitions + 1):
        inputs = first_inputs(session, size)
        begin = time.perf_counter()
        if any(name.startswith("past_key_values") for name in inputs):
            generate(session, inputs, tokens)
        else:
            session.run_with_ort_values([o.name for o in session.get_outputs()], inputs)
        if repetition > 0:
            seconds.append(time.perf_counter() - begin)
    return seconds


if __name__ == "__main__":
    if sys.argv[1] == "quantize":
        quantize(*sys.argv[2:])
    else:
        print(json.dumps(measure(sys.argv[2], *map(int, sys.argv[3:]))))
