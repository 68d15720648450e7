#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the trained model as split ONNX blocks in the llm-export convention, with the tokenizer, the
float32 reference (golden.json) and the held-out text. The embedding is rounded to bf16 first, and the
tied head uses the same rounded values, so the shipped files have exactly the reference's weights."""

import argparse
import base64
import json
import math
import os
import shutil
import warnings

import numpy as np
import sentencepiece as spm
import torch
import torch.nn as nn
import torch.nn.functional as F

import generate_text
from model import Config, Model, rotary

SEED_HELDOUT = 21
HELDOUT_BYTES = 16000
WINDOW = 256
STEPS = 64
TOP = 8
MASKED = torch.finfo(torch.float32).min
BOS, EOS = 1, 2

LONG = ("Once upon a time, there was a careless young girl named Nora. She lived in a warm house near "
        "the river. Nora had a red kite from her grandfather. She took it everywhere.\nOne windy day, "
        "the wind was strong, and it blew the kite away. When she came home, she looked for it. \"Oh "
        "no!\" cried Nora. \"I have lost my red kite!\"")
# a story without its last sentences: the continuation is short and ends with </s>
ENDING = generate_text.story(SEED_HELDOUT, 1000)
ENDING = ENDING[:ENDING.rindex("\n") + 20].rsplit(" ", 1)[0]
PROMPTS = ["", "Once upon a time", "One cold morning, a small fox", "In a valley full of flowers lived",
           LONG, ENDING, "Max hatte 37 Äpfel & ein ☃. Then"]


class Block(nn.Module):
    """One block in llm-export's form; the last one ends with the final norm and the last row."""

    def __init__(self, layer, final, c):
        super().__init__()
        self.layer, self.final, self.c = layer, final, c

    def forward(self, inputs_embeds, attention_mask, position_ids, past_key_values):
        x = inputs_embeds.view(1, -1, self.c.hidden)
        rope = rotary(position_ids, self.c)
        x, presents = self.layer(x, rope, attention_mask, past_key_values)
        if self.final is not None:
            x = self.final(x)
            x = x.view(-1, self.c.hidden)[-1].view(1, 1, self.c.hidden)
        return x, presents


class Head(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.lm = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        self.lm.weight = nn.Parameter(weight)

    def forward(self, hidden_states):
        return self.lm(hidden_states)


class Runner:
    """Generates with the exported modules, one cache per block."""

    def __init__(self, model, blocks, head):
        self.model, self.blocks, self.head = model, blocks, head
        c = model.c
        self.caches = [torch.zeros(2, 1, 0, c.kv_heads, c.head_dim) for _ in blocks]

    def step(self, ids):
        """Returns the logits [vocab] after ids, which are appended to all previous ids."""
        past, seq = self.caches[0].shape[2], len(ids)
        mask = torch.full((seq, past + seq), MASKED).triu(past + 1)[None, None]
        positions = torch.arange(past, past + seq)[None]
        x = self.model.embedding(torch.tensor(ids)).view(seq, 1, -1)
        for i, block in enumerate(self.blocks):
            x, self.caches[i] = block(x, mask, positions, self.caches[i])
        return self.head(x.view(1, -1))[0]


def export_graphs(model, blocks, head, out):
    c = model.c
    seq, past = 3, 2
    for i, block in enumerate(blocks):
        last = block.final is not None
        dynamic = {"inputs_embeds": {0: "seq_len"}, "attention_mask": {2: "seq_len", 3: "total_len"},
                   "position_ids": {1: "seq_len"}, "past_key_values": {2: "history_len"}}
        if not last:
            dynamic["hidden_states"] = {1: "seq_len"}
        dynamic["presents"] = {2: "total_len"}
        torch.onnx.export(
            block, (torch.randn(seq, 1, c.hidden), torch.zeros(1, 1, seq, past + seq),
                    torch.arange(past, past + seq)[None],
                    torch.randn(2, 1, past, c.kv_heads, c.head_dim)),
            os.path.join(out, f"block_{i}.onnx"), opset_version=15, do_constant_folding=True,
            input_names=["inputs_embeds", "attention_mask", "position_ids", "past_key_values"],
            output_names=["hidden_states", "presents"], dynamic_axes=dynamic)
    torch.onnx.export(head, (torch.randn(1, c.hidden),), os.path.join(out, "lm.onnx"),
                      opset_version=15, do_constant_folding=True, input_names=["hidden_states"],
                      output_names=["logits"])
    bits = model.embedding.weight.detach().numpy().view(np.uint32)
    assert not (bits & 0xFFFF).any()
    (bits >> 16).astype("<u2").tofile(os.path.join(out, "embeddings_bf16.bin"))


def export_tokenizer(sp, out):
    """tokenizer.txt, type 0: magic and type; counts of special, stop and prefix ids; those ids; the
    vocabulary's size; a line of base64 piece, score and sentencepiece type for each id."""
    lines = ["430 0", "2 1 1", f"{BOS} {EOS} {EOS} {BOS}", str(sp.vocab_size())]
    for i in range(sp.vocab_size()):
        kind = (2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 5 if sp.is_unused(i) else
                6 if sp.is_byte(i) else 1)
        piece = base64.b64encode(sp.id_to_piece(i).encode()).decode()
        lines.append(f"{piece} {sp.get_score(i)} {kind}")
    with open(os.path.join(out, "tokenizer.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


def export_config(c, out):
    config = {"hidden_size": c.hidden, "layer_nums": c.layers, "attention_mask": "float",
              "key_value_shape": [2, 1, 0, c.kv_heads, c.head_dim],
              "max_position_embeddings": c.context, "prompt_template": "%s",
              "is_visual": False, "is_single": False}
    with open(os.path.join(out, "llm_config.json"), "w") as file:
        json.dump(config, file, indent=4)
        file.write("\n")


def top(logits):
    values, ids = torch.topk(logits, TOP)
    return [[i, v] for i, v in zip(ids.tolist(), values.tolist())]


def case(model, blocks, head, sp, prompt):
    ids = [BOS] + sp.encode(prompt)
    runner = Runner(model, blocks, head)
    logits = runner.step(ids)
    # The training path must agree with the exported modules.
    assert (model(torch.tensor([ids]))[0, -1] - logits).abs().max() < 1e-3
    at_prompt, at_step, greedy = top(logits), None, []
    while len(greedy) < STEPS:
        greedy.append(int(logits.argmax()))
        if greedy[-1] == EOS:
            break
        logits = runner.step(greedy[-1:])
        at_step = at_step or top(logits)
    return {"prompt": prompt, "prompt_ids": ids, "greedy_ids": greedy, "ends_with_eos": greedy[-1] == EOS,
            "text": sp.decode(ids + greedy), "first_logits_top8": at_prompt,
            "second_logits_top8": at_step}


def heldout_text():
    text, i = "", 0
    while len(text.encode()) < HELDOUT_BYTES:
        text += generate_text.story(SEED_HELDOUT, i) + "\n\n"
        i += 1
    return text.rstrip("\n") + "\n"


def perplexity(model, sp, text):
    """Consecutive windows of WINDOW ids, each preceded by its own <s>; all ids are scored."""
    ids = sp.encode(text)
    total = 0.0
    for start in range(0, len(ids), WINDOW):
        window = ids[start:start + WINDOW]
        logits = model(torch.tensor([[BOS] + window[:-1]]))[0].double()
        total += F.cross_entropy(logits, torch.tensor(window), reduction="sum").item()
    return {"file": "heldout.txt", "window": WINDOW, "tokens": len(ids),
            "first_ids": ids[:16],
            "method": f"ids of the whole file without <s>, cut into windows of {WINDOW}; each window is "
                      "read after <s> with an empty cache and all its ids are scored; "
                      "exp(sum of -ln p / tokens)",
            "nll": total, "perplexity": math.exp(total / len(ids))}


def layout(golden):
    """JSON with one field of a case per line: short, and with readable diffs."""
    def fields(value, indent):
        return (",\n" + indent).join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}"
                                     for k, v in value.items())
    cases = ",\n".join("  {" + fields(c, "   ") + "}" for c in golden["cases"])
    return (f'{{"what": {json.dumps(golden["what"])},\n "cases": [\n{cases}\n ],\n'
            f' "perplexity": {{{fields(golden["perplexity"], "   ")}}}\n}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", required=True, help="folder train.py wrote")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    os.makedirs(args.out, exist_ok=True)
    checkpoint = torch.load(os.path.join(args.work, "model.pt"))
    model = Model(Config)
    model.load_state_dict(checkpoint["model"])
    model.eval()
    model.embedding.weight.data = model.embedding.weight.bfloat16().float()
    sp = spm.SentencePieceProcessor(model_file=os.path.join(args.work, "tokenizer.model"))
    last = model.c.layers - 1
    blocks = [Block(b, model.final if i == last else None, model.c)
              for i, b in enumerate(model.blocks)]
    head = Head(model.embedding.weight.data)
    export_graphs(model, blocks, head, args.out)
    export_tokenizer(sp, args.out)
    export_config(model.c, args.out)
    shutil.copyfile(os.path.join(args.work, "tokenizer.model"), os.path.join(args.out, "tokenizer.model"))
    text = heldout_text()
    with open(os.path.join(args.out, "heldout.txt"), "w") as file:
        file.write(text)
    golden = {"what": "float32 reference of torch, greedy, embedding in bf16, lm head the same values in "
                      "f32; ends at </s>, which is kept as the last id",
              "cases": [case(model, blocks, head, sp, p) for p in PROMPTS],
              "perplexity": perplexity(model, sp, text)}
    with open(os.path.join(args.out, "golden.json"), "w") as file:
        file.write(layout(golden))
    for c in golden["cases"]:
        print(repr(c["text"]), len(c["prompt_ids"]), c["ends_with_eos"])
    print("step", checkpoint["step"], "train loss", checkpoint["train"], "validation loss",
          checkpoint["validation"], "perplexity", golden["perplexity"]["perplexity"])


if __name__ == "__main__":
    main()
