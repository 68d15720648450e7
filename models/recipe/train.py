#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the tokenizer and the model on generated fables; everything goes to --work (not shipped)."""

import argparse
import math
import os
import time

import numpy as np
import sentencepiece as spm
import torch
import torch.nn.functional as F

import generate_text
from model import Config, Model

SEED_TOKENIZER, SEED_TRAIN, SEED_VALID, SEED_TORCH = 11, 12, 13, 14


def train_tokenizer(work):
    """BPE with byte fallback, as Llama's: unk 0, bos 1, eos 2; a newline is the byte piece <0x0A>."""
    path = os.path.join(work, "tokenizer.model")
    if os.path.exists(path):
        return spm.SentencePieceProcessor(model_file=path)
    with open(os.path.join(work, "tokenizer.in"), "w") as out:
        for i in range(8000):
            out.write(generate_text.story(SEED_TOKENIZER, i) + "\n")
    # The model file stores these paths: plain names make it independent of the work folder.
    before = os.getcwd()
    os.chdir(work)
    spm.SentencePieceTrainer.train(
        input="tokenizer.in", model_prefix="tokenizer", model_type="bpe", vocab_size=Config.vocab,
        byte_fallback=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, character_coverage=1.0,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        num_threads=1, minloglevel=2)
    os.chdir(before)
    return spm.SentencePieceProcessor(model_file=path)


def rows(sp, seed, start, count, length):
    """count rows of length ids; each begins with <s> and the start of a story, and is filled with
    whole stories <s> ... </s> until it is cut. Returns the rows and the index of the next story."""
    out = np.zeros((count, length), dtype=np.int64)
    for r in range(count):
        row = []
        while len(row) < length:
            row += [1] + sp.encode(generate_text.story(seed, start)) + [2]
            start += 1
        out[r] = row[:length]
    return torch.from_numpy(out), start


def loss_of(model, batch, bf16):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logits = model(batch[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", required=True)
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--fp32", action="store_true", help="no bf16 in the matrix products")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED_TORCH)
    os.makedirs(args.work, exist_ok=True)
    sp = train_tokenizer(args.work)
    model = Model(Config)
    print("parameters", sum(p.numel() for p in model.parameters()), flush=True)
    length = Config.context + 1
    valid, _ = rows(sp, SEED_VALID, 0, 64, length)
    decay = [p for p in model.parameters() if p.dim() == 2]
    plain = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                                   {"params": plain, "weight_decay": 0.0}],
                                  lr=args.rate, betas=(0.9, 0.95))
    path = os.path.join(args.work, "model.pt")
    story, begin = 0, time.time()
    for step in range(args.steps):
        progress = max(0.0, (step - args.warmup) / (args.steps - args.warmup))
        rate = args.rate * min(1.0, (step + 1) / args.warmup)
        rate *= 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch, story = rows(sp, SEED_TRAIN, story, args.batch, length)
        loss = loss_of(model, batch, not args.fp32)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == args.steps - 1:
            print(f"step {step} loss {loss.item():.4f} rate {rate:.5f} "
                  f"seconds {time.time() - begin:.0f}", flush=True)
        if step % 250 == 249 or step == args.steps - 1:
            with torch.no_grad():
                v = sum(loss_of(model, valid[i:i + 16], not args.fp32).item() for i in range(0, 64, 16)) / 4
            print(f"step {step} validation {v:.4f}", flush=True)
            torch.save({"model": model.state_dict(), "step": step + 1, "validation": v,
                        "train": loss.item()}, path + ".tmp")
            os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
