#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes stories with a shipped folder (through check_onnx.py's evaluator): greedy and sampled."""

import argparse
import os

import numpy as np
import sentencepiece as spm

from check_onnx import Runner

BOS, EOS = 1, 2


def write(runner, sp, prompt, temperature, seed, limit):
    rng = np.random.default_rng(seed)
    runner.reset()
    ids = [BOS] + sp.encode(prompt)
    logits = runner.step(ids)
    while len(ids) < limit:
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = np.exp((logits - logits.max()).astype(np.float64) / temperature)
            token = int(rng.choice(len(p), p=p / p.sum()))
        ids.append(token)
        if token == EOS:
            break
        logits = runner.step([token])
    return sp.decode(ids), len(ids), ids[-1] == EOS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("-p", "--prompt", default="")
    parser.add_argument("--temp", type=float, default=0.8)
    parser.add_argument("--seeds", type=int, default=4, help="0: greedy")
    parser.add_argument("--limit", type=int, default=384)
    args = parser.parse_args()
    runner = Runner(args.folder)
    sp = spm.SentencePieceProcessor(model_file=os.path.join(args.folder, "tokenizer.model"))
    runs = [(0.0, 0)] if args.seeds == 0 else [(args.temp, s) for s in range(1, args.seeds + 1)]
    for temperature, seed in runs:
        text, count, ended = write(runner, sp, args.prompt, temperature, seed, args.limit)
        end = "</s>" if ended else "(cut)"
        print(f"--- temperature {temperature} seed {seed}: {count} ids\n{text} {end}\n", flush=True)


if __name__ == "__main__":
    main()
