#!/usr/bin/env python3
"""Compares llmc's transcriptions with onnxruntime's: Moonshine tiny, on ten synthesised sentences.

    sudo tools/peers/speech.py [--quant f32,q8]

Fetches the model (npm: @usefulsensors/moonshine-js 0.1.2) and the vocabulary (npm: llama-tokenizer-js
1.2.2), speaks the sentences with espeak-ng, runs onnxruntime in the chroot of setup.sh and `llmc run
--audio` for each format, and prints for each how many sentences have the same token ids and the word
error rate. With f32 all ids must be equal; otherwise the exit code is 1.
"""
import argparse
import base64
import json
import re
import shutil
import tempfile
from pathlib import Path

from support import Failed, chroot_python, run, run_main, say

MODEL, VOCABULARY = "@usefulsensors/moonshine-js@0.1.2", "llama-tokenizer-js@1.2.2"
START, END, MAX_TOKENS = 1, 2, 60
SENTENCES = [
    "the quick brown fox jumps over the lazy dog",
    "please call me tomorrow at nine in the morning",
    "the weather in london is cold and rainy today",
    "she bought three apples and a bottle of milk",
    "we are going to the beach this weekend",
    "my favorite color is blue",
    "the train to paris leaves in ten minutes",
    "can you open the window please",
    "he has been working here for twenty years",
    "thank you very much for your help",
]

# Runs in the chroot: greedy ids of each WAV file, one line of JSON each.
REFERENCE = """
import json, sys, wave
import numpy as np, onnxruntime as ort
folder, start, end, limit = sys.argv[1], *map(int, sys.argv[2:5])
options = ort.SessionOptions()
options.intra_op_num_threads = 1
encoder = ort.InferenceSession(folder + "/encoder_model.onnx", options)
decoder = ort.InferenceSession(folder + "/decoder_model_merged.onnx", options)
names = [value.name for value in decoder.get_outputs()]
for file in sys.argv[5:]:
    sound = wave.open(file)
    samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16) / np.float32(32768)
    rows = encoder.run(None, {"input_values": samples[None].astype(np.float32)})[0]
    past = {v.name: np.zeros((1, v.shape[1], 0, v.shape[3]), np.float32)
            for v in decoder.get_inputs() if v.name.startswith("past")}
    ids = [start]
    while len(ids) <= limit:
        inputs = {"input_ids": np.array([[ids[-1]]], np.int64), "encoder_hidden_states": rows,
                  "use_cache_branch": np.array([len(ids) > 1]), **past}
        outputs = dict(zip(names, decoder.run(None, inputs)))
        for name in past:
            if len(ids) == 1 or ".decoder." in name:
                past[name] = outputs["present" + name[len("past_key_values"):]]
        best = int(outputs["logits"][0, -1].argmax())
        if best == end:
            break
        ids.append(best)
    print(json.dumps(ids[1:]))
"""


def fetch(package: str, folder: Path) -> Path:
    """The unpacked npm package."""
    target = folder / re.sub(r"\W+", "-", package)
    if not target.exists():
        say(f"fetching {package}")
        with tempfile.TemporaryDirectory(dir=folder) as work:
            archive = run(["npm", "pack", package, "--silent"], cwd=work).stdout.split()[-1]
            run(["tar", "xzf", archive], cwd=work)
            shutil.move(Path(work) / "package", target)
    return target


def words(text: str) -> list:
    return re.findall(r"[a-z']+", text.lower())


def word_errors(spoken: list, heard: list) -> int:
    """The edit distance in words."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(spoken, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (word != other))
    return row[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache/llmc-peers", help="of setup.sh")
    parser.add_argument("--llmc", type=Path, default=Path(__file__).parents[2] / "build/llmc")
    parser.add_argument("--quant", default="f32,q8", help="formats of llmc (default: f32,q8)")
    args = parser.parse_args()
    for program, package in (("npm", "npm"), ("espeak-ng", "espeak-ng"), ("sox", "sox")):
        if shutil.which(program) is None:
            raise Failed(f"{program} is missing: apt-get install {package}")
    if not (args.folder / "sid").exists():
        run([Path(__file__).parent / "setup.sh", args.folder])
    speech = args.folder / "models/speech"
    speech.mkdir(parents=True, exist_ok=True)
    model = fetch(MODEL, speech) / "dist/model/tiny/float"
    (model / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": START, "eos_token_id": END}))
    script = (fetch(VOCABULARY, speech) / "llama-tokenizer.js").read_text()
    vocabulary = base64.b64decode(re.search(r'llama_vocab_base64 = "([^"]+)"', script)[1]).decode().split("\n")
    files = []
    for i, sentence in enumerate(SENTENCES):
        files.append(speech / f"{i}.wav")
        raw = speech / f"{i}.raw.wav"
        run(["espeak-ng", "-v", "en-us", "-s", "140", "-w", raw, sentence])
        run(["sox", "-D", raw, "-r", "16000", "-b", "16", files[-1]])
    inside = [Path("/models") / path.relative_to(args.folder / "models") for path in [model, *files]]
    say("onnxruntime")
    reference = run([*chroot_python(args), "-c", REFERENCE, inside[0], START, END, MAX_TOKENS, *inside[1:]])
    expected = [json.loads(line) for line in reference.stdout.splitlines()]
    heard = {"onnxruntime": expected}
    for quant in args.quant.split(","):
        say(f"llmc {quant}")
        heard[quant] = []
        for file in files:
            done = run([args.llmc, "run", model, "--audio", file, "--quant", quant, "--temp", "0", "-n", MAX_TOKENS,
                        "--json"])
            heard[quant].append(json.loads(done.stdout.splitlines()[-1])["ids"])
    spoken = sum(len(words(sentence)) for sentence in SENTENCES)
    for name, all_ids in heard.items():
        texts = ["".join(vocabulary[i] for i in ids).replace("\u2581", " ") for ids in all_ids]
        errors = sum(word_errors(words(s), words(t)) for s, t in zip(SENTENCES, texts))
        same = sum(ids == other for ids, other in zip(all_ids, expected))
        print(f"{name:12} {same:2} of {len(SENTENCES)} with onnxruntime's ids, word error rate {100 * errors / spoken:.1f} %")
        print("\n".join(f"    {text.strip()}" for text in texts))
    return 0 if heard.get("f32", expected) == expected else 1


if __name__ == "__main__":
    run_main(main)
