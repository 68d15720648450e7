#!/usr/bin/env python3
"""Perplexity and weight error of 4-bit formats on a trained model in split ONNX blocks.

Reproduces the format table of docs/decisions/0003-q4-format.md. Not part of the build: needs
python3-torch, python3-onnx, python3-numpy and sentencepiece. Debian's torch multiplies matrices
slowly (about 2 GFLOP/s on one core), so one perplexity takes minutes; --error-only takes seconds.

    tools/research/q4_formats.py MODEL_DIR --text FILE --tokenizer tokenizer.model [--only NAME]...

MODEL_DIR: block_i.onnx, lm.onnx, embeddings_bf16.bin, llm_config.json; multi-head attention,
rotate-half RoPE, SwiGLU; MatMul outputs named /layer/{q,k,v,o,gate,up,down}/. Text is cut into
windows of 255 tokens, each after a begin-of-sequence token. Activations of every matrix product
are int8, symmetric, one scale per token per 256 along K, as in the kernels.
"""
import argparse
import json
import math
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

BLOCK, SUPER, WINDOW = 32, 256, 255
KINDS = ("q", "k", "v", "o", "gate", "up", "down")


# ---- the model -----------------------------------------------------------------------------------


def initializers(path):
    graph = onnx.load(str(path)).graph
    return graph, {t.name: torch.tensor(numpy_helper.to_array(t)) for t in graph.initializer}


class Model:
    """Weights [rows, K] by name ("3.down", "head"), norms, and what the forward pass needs."""

    def __init__(self, folder):
        config = json.loads((folder / "llm_config.json").read_text())
        self.layers, self.hidden = config["layer_nums"], config["hidden_size"]
        self.heads, self.dim = config["key_value_shape"][-2:]
        self.weights, self.norms = {}, {}
        for i in range(self.layers):
            graph, values = initializers(folder / f"block_{i}.onnx")
            for node in graph.node:
                for kind in KINDS:
                    if node.op_type == "MatMul" and f"/layer/{kind}/" in node.output[0]:
                        self.weights[f"{i}.{kind}"] = values[node.input[1]].T.contiguous()
            self.norms[f"{i}.n1"], self.norms[f"{i}.n2"] = values["layer.n1.weight"], values["layer.n2.weight"]
            self.theta = next(v for v in values.values() if v.shape == (self.dim // 2,))
            self.eps = float(values["/layer/n1/Constant_1_output_0"])
            if "final.weight" in values:
                self.norms["final"] = values["final.weight"]
        self.weights["head"] = next(iter(initializers(folder / "lm.onnx")[1].values())).T.contiguous()
        bits = np.fromfile(folder / "embeddings_bf16.bin", dtype=np.uint16).astype(np.uint32) << 16
        self.embedding = torch.tensor(bits.view(np.float32).reshape(-1, self.hidden))

    def norm(self, x, name):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.norms[name]

    def forward(self, ids, weights, int8):
        """ids [tokens] -> logits [tokens, vocabulary]."""
        act = quantize_activations if int8 else (lambda x: x)
        half, count = self.dim // 2, len(ids)
        angle = torch.arange(count).float()[:, None] * self.theta
        angle = torch.cat([angle, angle], -1)
        mask = torch.full((count, count), float("-inf")).triu(1)

        def rotate(t):
            return t * angle.cos() + torch.cat([-t[..., half:], t[..., :half]], -1) * angle.sin()

        x = self.embedding[ids]
        for i in range(self.layers):
            def product(h, kind):
                return h @ weights[f"{i}.{kind}"].T

            h = act(self.norm(x, f"{i}.n1"))
            q, k, v = (product(h, n).view(count, self.heads, self.dim).transpose(0, 1) for n in "qkv")
            scores = rotate(q) @ rotate(k).transpose(-1, -2) / math.sqrt(self.dim) + mask
            a = (torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(count, -1)
            x = x + product(act(a), "o")
            h = act(self.norm(x, f"{i}.n2"))
            gate = product(h, "gate")
            x = x + product(act(gate * torch.sigmoid(gate) * product(h, "up")), "down")
        return act(self.norm(x, "final")) @ weights["head"].T


def quantize_activations(x):
    out = torch.empty_like(x)
    for begin in range(0, x.shape[-1], SUPER):
        part = x[..., begin:begin + SUPER]
        scale = part.abs().amax(-1, keepdim=True) / 127
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        out[..., begin:begin + SUPER] = torch.round(part / scale) * scale
    return out


def perplexity(model, weights, tokens, int8):
    loss, count = 0.0, 0
    for begin in range(0, len(tokens), WINDOW):
        part = tokens[begin:begin + WINDOW]
        logits = model.forward(torch.tensor([1] + part[:-1]), weights, int8)
        picked = torch.log_softmax(logits, -1).gather(1, torch.tensor(part)[:, None])
        loss, count = loss - picked.double().sum().item(), count + len(part)
    return math.exp(loss / count)


# ---- formats: functions of blocks w [rows, blocks, 32] that return what they decode to ----------


def rounded(x):
    return torch.floor(x + 0.5)


def inverse(x):
    return torch.where(x != 0, 1 / torch.where(x != 0, x, torch.ones_like(x)), torch.zeros_like(x))


def codes(w, s, m):
    return rounded((w - m[..., None]) * inverse(s)[..., None]).clamp(0, 15)


def decoded(w, s, m):
    return s[..., None] * codes(w, s, m) + m[..., None]


def error(w, s, m):
    return ((w - decoded(w, s, m)) ** 2).sum(-1)


def keep_better(best, w, s, m):
    e = error(w, s, m)
    if best is None:
        return e, s, m
    return tuple(torch.where(e < best[0], new, old) for new, old in zip((e, s, m), best))


def minmax(w, below_zero):
    low = w.amin(-1).clamp_max(0) if below_zero else w.amin(-1)
    return (w.amax(-1) - low) / 15, low


def least_squares(w, below_zero):
    """Alternates rounding and fitting from several starting ranges."""
    low = w.amin(-1).clamp_max(0) if below_zero else w.amin(-1)
    width, best = w.amax(-1) - low, None
    for steps in (13, 14, 15, 16, 17):
        s = width / steps
        m = low + (width - 15 * s) / 2
        for _ in range(3):
            c = codes(w, s, m)
            dc, dw = c - c.mean(-1, keepdim=True), w - w.mean(-1, keepdim=True)
            s = ((dc * dw).sum(-1) * inverse((dc * dc).sum(-1))).clamp_min(0)
            m = w.mean(-1) - s * c.mean(-1)
            m = m.clamp_max(0) if below_zero else m
        best = keep_better(best, w, s, m)
    return best[1], best[2]


def on_grid(w, s, m, largest_s, largest_m, signed, joint):
    """s and m as integers times one scale per row; `joint` searches neighbours and rounds again."""
    row_s = (s.amax(1, keepdim=True) / largest_s).bfloat16().float()
    row_m = ((m.abs() if signed else -m).amax(1, keepdim=True) / largest_m).bfloat16().float()
    low, high = -largest_m, largest_m if signed else 0
    best, nearest = None, rounded(s * inverse(row_s))
    for ds in (-1, 0, 1) if joint else (0,):
        sv = (nearest + ds).clamp(1, largest_s) * row_s
        for start in (-0.5, 0.0, 0.5) if joint else (None,):
            wanted = m if start is None else m + (s - sv) * 7.5 + start * sv
            for _ in range(6 if joint else 1):
                mv = rounded(wanted * inverse(row_m)).clamp(low, high) * row_m
                best = keep_better(best, w, sv, mv)
                wanted = (w - sv[..., None] * codes(w, sv, mv)).mean(-1)
    return decoded(w, best[1], best[2])


def grid(largest_s, largest_m, signed=False, fit=least_squares, joint=True):
    return lambda w: on_grid(w, *fit(w, not signed), largest_s, largest_m, signed, joint)


def zero_point(w):
    """w = S * s * (c - z), z in 0..15: the min is a whole number of steps."""
    s, m = least_squares(w, True)
    row_s = (s.amax(1, keepdim=True) / 15).bfloat16().float()
    best, nearest = None, rounded(s * inverse(row_s))
    for ds in (-1, 0, 1):
        sv = (nearest + ds).clamp(1, 15) * row_s
        for dz in (-1, 0, 1):
            best = keep_better(best, w, sv, -sv * (rounded(-m * inverse(sv)) + dz).clamp(0, 15))
    return decoded(w, best[1], best[2])


def q4_0(w):
    extreme = w.gather(-1, w.abs().argmax(-1, keepdim=True))[..., 0]
    d = (extreme / -8).half().float()
    return ((rounded(w * inverse(d)[..., None] + 8)).clamp(0, 15) - 8) * d[..., None]


def q4_1(fit):
    def encode(w):
        s, m = fit(w, False)
        return decoded(w, s.half().float(), m.half().float())
    return encode


def q8(w):
    d = (w.abs().amax(-1) / 127).half().float()
    return rounded(w * inverse(d)[..., None]).clamp(-127, 127) * d[..., None]


# name -> bits per weight without and with what is stored per row (two bf16), encoder
FORMATS = {
    "symmetric, f16 scale (Q4_0)": (4.5, 0, q4_0),
    "f16 scale and min, min/max (Q4_1)": (5.0, 0, q4_1(minmax)),
    "f16 scale and min, least squares": (5.0, 0, q4_1(least_squares)),
    "s8 m8, min/max": (4.5, 32, grid(255, 255, fit=minmax, joint=False)),
    "s8 m8": (4.5, 32, grid(255, 255)),
    "s6 m6": (4.375, 32, grid(63, 63)),
    "s5 m7": (4.375, 32, grid(31, 127)),
    "s4 m8, min/max": (4.375, 32, grid(15, 255, fit=minmax, joint=False)),
    "s4 m8, least squares, rounded apart": (4.375, 32, grid(15, 255, joint=False)),
    "s4 m8": (4.375, 32, grid(15, 255)),
    "s4 m8 signed": (4.375, 32, grid(15, 127, signed=True)),
    "s8 m4": (4.375, 32, grid(255, 15)),
    "s4 m4": (4.25, 32, grid(15, 15)),
    "s4, zero point of 4 bits": (4.25, 16, zero_point),
    "q8": (8.5, 0, q8),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--only", action="append", help="formats whose name contains this")
    parser.add_argument("--error-only", action="store_true", help="no perplexity")
    parser.add_argument("--head", action="store_true", help="the head in the format too")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    model = Model(args.model)
    tokens, base = None, None
    if not args.error_only:
        import sentencepiece
        tokens = sentencepiece.SentencePieceProcessor(str(args.tokenizer)).encode(args.text.read_text())
        base = perplexity(model, model.weights, tokens, int8=False)
        print(f"{len(tokens)} tokens; f32 {base:.4f}; int8 activations only "
              f"{perplexity(model, model.weights, tokens, int8=True):.4f}", flush=True)
    print("| format | bits, K = 4096 | relative rms error | perplexity | / f32 |\n|---|---|---|---|---|")
    for name, (bits, row_bits, encode) in FORMATS.items():
        if args.only and not any(part in name for part in args.only):
            continue
        weights, lost, total = dict(model.weights), 0.0, 0.0
        for key, w in model.weights.items():
            if key == "head" and not args.head:
                continue
            weights[key] = encode(w.view(w.shape[0], -1, BLOCK)).reshape(w.shape)
            lost += ((w - weights[key]) ** 2).sum().item()
            total += (w * w).sum().item()
        line = f"| {name} | {bits + row_bits / 4096:.3f} | {math.sqrt(lost / total):.4f} |"
        if not args.error_only:
            value = perplexity(model, weights, tokens, int8=True)
            line += f" {value:.3f} | {value / base:.3f} |"
        print(line, flush=True)


if __name__ == "__main__":
    main()
