#!/usr/bin/env python3
"""ggml_matmul.py LIBRARY TYPE ROWS COLUMNS TOKENS THREADS REPETITIONS: times llama.cpp's product of a matrix.

LIBRARY is one of ggml's CPU backends (libggml-cpu-haswell.so), TYPE a weight format: f32, f16, q4_0, q4_1, q4_k. y[TOKENS][ROWS] = x . w^T
with f32 x and y, as llama.cpp computes it: formats that it rearranges for the backend (q4_0, q4_k) are rearranged. The graph holds as
many matrices, one after the other, as one run should take; prints JSON with seconds of each repetition for one matrix. compare.py runs this
with the chroot's Python and numpy."""
import ctypes
import json
import sys
import time
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

import numpy as np

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q4_k": 12}  # ggml_type
REARRANGED = ("q4_0", "q4_k")


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


def declare(library: ctypes.CDLL, name: str, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


def fail(text: str) -> None:
    print(f"ggml_matmul.py: {text}", file=sys.stderr)
    sys.exit(1)


def main() -> None:
    library, kind = sys.argv[1], sys.argv[2]
    rows, columns, tokens, threads, repetitions = map(int, sys.argv[3:8])
    if kind not in TYPES:
        fail(f"no format {kind}; there are {', '.join(TYPES)}")
    base = ctypes.CDLL("libggml-base.so.0", mode=ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL("libggml.so.0", mode=ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(library)
    registry = declare(ggml, "ggml_backend_load", c_void_p, c_char_p)(library.encode())
    if not registry:
        fail(f"{library} cannot be loaded on this processor")
    device = declare(base, "ggml_backend_reg_dev_get", c_void_p, c_void_p, c_size_t)(registry, 0)
    backend = declare(base, "ggml_backend_dev_init", c_void_p, c_void_p, c_char_p)(device, None)
    declare(cpu, "ggml_backend_cpu_set_n_threads", None, c_void_p, c_int)(backend, threads)

    # Enough work in one run that calling it does not count.
    matrices = max(1, min(8, int(2e9 / (rows * columns * tokens))))
    init = declare(base, "ggml_init", c_void_p, InitParams)
    tensor = declare(base, "ggml_new_tensor_2d", c_void_p, c_void_p, c_int, c_int64, c_int64)
    weights = init(InitParams(1 << 20, None, True))
    w = [tensor(weights, TYPES[kind], columns, rows) for _ in range(matrices)]
    if kind in REARRANGED:
        buffer_type = declare(cpu, "_Z35ggml_backend_cpu_repack_buffer_typev", c_void_p)()
    else:
        buffer_type = declare(base, "ggml_backend_dev_buffer_type", c_void_p, c_void_p)(device)
    allocate = declare(base, "ggml_backend_alloc_ctx_tensors_from_buft", c_void_p, c_void_p, c_void_p)
    if not allocate(weights, buffer_type):
        fail("no memory for the weights")
    random = np.random.default_rng(1)
    put = declare(base, "ggml_backend_tensor_set", None, c_void_p, c_void_p, c_size_t, c_size_t)
    quantize = declare(base, "ggml_quantize_chunk", c_size_t, c_int, POINTER(c_float), c_void_p, c_int64, c_int64, c_int64, c_void_p)
    for one in w:
        values = random.standard_normal((rows, columns), np.float32) * np.float32(0.02)
        packed = np.empty(values.nbytes, np.uint8)
        used = quantize(TYPES[kind], values.ctypes.data_as(POINTER(c_float)), packed.ctypes.data, 0, rows, columns, None)
        put(one, packed.ctypes.data, 0, used)

    computing = init(InitParams(1 << 24, None, True))
    x = tensor(computing, TYPES["f32"], columns, tokens)
    product = declare(base, "ggml_mul_mat", c_void_p, c_void_p, c_void_p, c_void_p)
    graph = declare(base, "ggml_new_graph", c_void_p, c_void_p)(computing)
    expand = declare(base, "ggml_build_forward_expand", None, c_void_p, c_void_p)
    for one in w:
        expand(graph, product(computing, one, x))
    if not declare(base, "ggml_backend_alloc_ctx_tensors", c_void_p, c_void_p, c_void_p)(computing, backend):
        fail("no memory for the results")
    values = random.standard_normal((tokens, columns), np.float32)
    put(x, values.ctypes.data, 0, values.nbytes)
    compute = declare(base, "ggml_backend_graph_compute", c_int, c_void_p, c_void_p)
    seconds = []
    for repetition in range(repetitions + 1):
        started = time.perf_counter()
        if compute(backend, graph) != 0:
            fail("the graph was not computed")
        if repetition > 0:  # the first one warms up
            seconds.append((time.perf_counter() - started) / matrices)
    print(json.dumps({"matrices": matrices, "seconds": seconds}))


main()
