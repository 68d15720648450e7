#!/usr/bin/env python3
"""Measures llama.cpp's formats beside llmc's on the same weights and the same tokens: bytes and KL divergence from f32.

    sudo tools/peers/quality.py MODEL --text tinystories-30k.txt -c 256 --svg quality.svg

MODEL is a split Llama (llm_config.json, block_N.onnx, lm.onnx, embeddings_bf16.bin) with its tokenizer. What happens:
 1. The first time, tools/peers/setup.sh puts llama.cpp into a chroot in --folder (1 GB).
 2. The weights are written as an f32 GGUF file (gguf_of_onnx.py), and llama-quantize makes one of each of --types, without an importance
    matrix. Where a matrix does not suit a type, it takes another one (K types need rows of 256 weights), and the head often has more bits:
    the types in each file are printed, and its bytes are counted, not computed from the name. "Q4_0 pure" has the same type in the head.
    "Q6_K wide" is of the same model with its hidden state widened by zeros to a multiple of 256, which changes no result, so that K types
    apply to all matrices but attention's output, as in a wide model; the zeros' bytes are not counted. Both have an embedding of Q8_0, which
    is llmc's.
 3. llama.cpp reads the same ids in the same windows as llmc (llama_divergence.c), with an f32 cache, and each format's distributions are
    compared with those of its own f32 file. The f32 perplexities of both programs must be equal within 0.1 %.
 4. The rows go to --peer, and `llmc compare --peer` measures llmc's own formats. All are printed, by size.

Root is needed for the chroot alone. llmc is taken from --build."""
import argparse
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from support import Failed, Misused, build_program, chroot_python, prepare_chroot, run, run_main, say

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TYPES = "F32,Q8_0,Q6_K,Q5_K_M,Q4_K_M,Q4_1,Q4_0,Q3_K_M,Q6_K wide,Q5_K_M wide,Q4_K_M wide,Q5_1 pure,Q4_1 pure,Q4_0 pure"
BLOCK = 256  # weights of a block of K types
MODEL_FILES = ("llm_config.json", "embeddings_bf16.bin", "lm.onnx")

# Runs in the chroot: bytes of all tensors, of those that a token reads, and the number of tensors of each type.
SIZES = """
import collections, gguf, json, sys
reader, hidden = gguf.GGUFReader(sys.argv[1]), int(sys.argv[2])
tensors = {t.name: t for t in reader.tensors}
# One dimension of every tensor is the hidden state's, which may have zeros at the end.
part = hidden / int(reader.fields["llama.embedding_length"].contents())
total = sum(int(t.n_bytes) for t in tensors.values())
table = tensors["token_embd.weight"]
row = int(table.n_bytes) // int(table.shape[1])
# Without output.weight the table is the head too, which a token reads whole.
read = total - (int(table.n_bytes) - row if "output.weight" in tensors else 0)
types = collections.Counter(t.tensor_type.name for t in tensors.values() if len(t.shape) > 1)
print(json.dumps({"weight_bytes": round(total * part), "weight_bytes_per_token": round(read * part), "types": types}))
"""


class Chroot:
    """A folder in the chroot with the GGUF files, and the programs that read them."""

    def __init__(self, args, folder: Path) -> None:
        self.args, self.folder = args, folder
        self.root = args.folder / "sid"
        self.inside = Path("/models") / folder.name

    def run(self, *argv, **keywords):
        return run(["chroot", self.root, *argv], **keywords)

    def write_f32(self, model: Path) -> None:
        copy = self.folder / "model"
        copy.mkdir()
        for name in [*MODEL_FILES, *(path.name for path in model.glob("block_*.onnx"))]:
            if not (model / name).exists():
                raise Misused(f"{model / name} is missing: MODEL is a split Llama")
            shutil.copy(model / name, copy)
        shutil.copy(HERE / "gguf_of_onnx.py", self.folder)
        convert = [*chroot_python(self.args), self.inside / "gguf_of_onnx.py", self.inside / "model"]
        run([*convert, self.inside / "F32.gguf"])
        run([*convert, self.inside / "F32 wide.gguf", BLOCK])
        shutil.rmtree(copy)

    def quantize(self, kind: str) -> dict:
        """The name and the sizes of a type's file, "Q4_0", "Q4_0 pure" or "Q6_K wide"."""
        name, *how = kind.split()
        if not set(how) <= {"pure", "wide"}:
            raise Misused(f"--types {kind}: after the type there may be pure and wide")
        if name != "F32":
            source = "F32 wide.gguf" if "wide" in how else "F32.gguf"
            options = ["--token-embedding-type", "q8_0"] if how else []
            options += ["--pure"] if "pure" in how else []
            self.run("llama-quantize", *options, self.inside / source, self.inside / f"{kind}.gguf", name)
        hidden = json.loads((self.args.model / "llm_config.json").read_text())["hidden_size"]
        sizes = json.loads(run([*chroot_python(self.args), "-c", SIZES, self.inside / f"{kind}.gguf", hidden]).stdout)
        say(f"{kind}: " + ", ".join(f"{count} matrices {name}" for name, count in sorted(sizes.pop("types").items())))
        return {"name": kind, **sizes}

    def measure(self, kinds: list, windows: str) -> list:
        """A row for each type."""
        rows = [self.quantize(kind) for kind in kinds]
        say("llama.cpp reads the text")
        done = self.run(self.inside / "llama_divergence", self.args.ctx, self.args.threads, self.inside / "F32.gguf",
                        *(self.inside / f"{kind}.gguf" for kind in kinds), input=windows)
        for row, line in zip(rows, done.stdout.splitlines(), strict=True):
            row.update(json.loads(line))
        backend = re.search(r"libggml-cpu-(\w+)", done.stderr)
        say(f"CPU backend: {backend[1] if backend else 'unknown'}")
        return rows

    def version(self) -> str:
        package = self.run("dpkg-query", "-W", "-f", "${Version}", "llama.cpp").stdout
        return re.sub(r"^\d+:|[+-].*$", "", package)


def windows_of(args) -> str:
    """The text as `llmc compare --count all` cuts it: a window a line, its ids separated by blanks."""
    tokenize = [args.llmc, "tokenize", args.model, "--json"]
    ids = json.loads(run([*tokenize, "--no-prefix", "-f", args.text]).stdout)["ids"]
    bos = json.loads(run([*tokenize, ""]).stdout)["ids"]
    if len(bos) > 1:
        raise Failed(f"{args.model}: prompts begin with several tokens, which llama_divergence does not do")
    step = args.ctx - len(bos)
    return "".join(" ".join(map(str, bos + ids[i:i + step])) + "\n" for i in range(0, len(ids), step))


def check_same_model(args, row: dict) -> None:
    ours = json.loads(run([args.llmc, "ppl", args.model, *measured(args), "--quant", "f32", "--kv", "f32", "--json"]).stdout)
    if ours["predicted"] != row["predicted"]:
        raise Failed(f"llmc counted {ours['predicted']} tokens, llama.cpp {row['predicted']}")
    theirs = row["base_perplexity"]
    if not abs(theirs / ours["perplexity"] - 1) < 1e-3:
        raise Failed(f"the GGUF file is another model: perplexity {theirs}, with llmc {ours['perplexity']}")
    say(f"f32 perplexity: llama.cpp {theirs:.4f}, llmc {ours['perplexity']:.4f}")


def table(report: dict) -> str:
    """All formats in Markdown, the largest first."""
    rows = []
    for row in report["rows"]:
        kl = row["kl"]
        rows.append((f"**llmc {row['quant']}**", row, kl["mean"]["value"], kl["mean"]["standard_error"], kl["same_top"]["value"]))
    for peer in report["peers"]:
        rows += [(f"{peer['program']} {row['name']}", row, row["kl"], row["kl_standard_error"], row["same_top"]) for row in peer["rows"]]
    rows.sort(key=lambda row: row[1]["weight_bytes_per_token"], reverse=True)
    lines = ["| format | bits per weight | bytes per token | all weights | KL divergence | same top token | perplexity |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    for name, row, kl, error, same in rows:
        lines.append(f"| {name} | {row['bits_per_weight']:.2f} | {row['weight_bytes_per_token']:,} | {row['weight_bytes']:,} | "
                     f"{kl:.6f} ± {error:.6f} | {100 * same:.2f} % | {row['perplexity']:.4f} |")
    return "\n".join(lines)


def measured(args) -> list:
    return ["--text", args.text, "-c", args.ctx, "--count", "all", "--batch", "16", "-t", args.threads]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a split Llama")
    parser.add_argument("--text", type=Path, required=True, help="file with the text")
    parser.add_argument("-c", "--ctx", type=int, default=256, help="tokens of a window (default: %(default)s)")
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count(), help="default: %(default)s")
    parser.add_argument("--types", default=TYPES, help="of llama-quantize, with pure or wide after them (default: %(default)s)")
    parser.add_argument("--quant", default="f32,q8,q6,q4m,q4", help="formats of llmc (default: %(default)s)")
    parser.add_argument("--fit", help="budgets of llmc, as llmc compare takes them: 15MB,21MB")
    parser.add_argument("--peer", type=Path, default=Path("llama.json"), help="file for llama.cpp's rows (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="take --peer as it is and measure llmc alone, which needs no root")
    parser.add_argument("--svg", type=Path, help="file for the chart")
    parser.add_argument("--json", type=Path, help="file for all numbers, as llmc compare prints them")
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache/llmc-peers", help="of setup.sh (default: %(default)s)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where llmc was built (default: %(default)s)")
    args = parser.parse_args()
    args.folder, args.llmc = args.folder.resolve(), args.build.resolve() / "llmc"
    if args.ctx < 2 or args.threads < 1:
        parser.error("--ctx is 2 or more, --threads 1 or more")
    return args


def measure_peer(args) -> None:
    """Writes --peer."""
    prepare_chroot(args, needs_onnx=True, needs_headers=True)
    windows = windows_of(args)
    with tempfile.TemporaryDirectory(dir=args.folder / "models", prefix="quality-") as work:
        chroot = Chroot(args, Path(work))
        build_program(args, "llama_divergence", chroot.folder)
        chroot.write_f32(args.model)
        rows = chroot.measure(args.types.split(","), windows)
        program = f"llama.cpp {chroot.version()}"
    check_same_model(args, rows[0])
    keys = ("name", "weight_bytes", "weight_bytes_per_token", "perplexity", "perplexity_standard_error", "kl", "kl_standard_error", "same_top")
    peer = {"program": program, "cache": "f32", "predicted": rows[0]["predicted"],
            "rows": [{key: row[key] for key in keys} for row in rows]}
    args.peer.write_text(json.dumps(peer, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    args = parse()
    if not args.llmc.exists():
        raise Misused(f"{args.llmc} is missing: build it, or name the folder with --build")
    if not args.keep:
        measure_peer(args)
    command = [args.llmc, "compare", args.model, *measured(args), "--steps", "128", "--kv", "f32", "--quant", args.quant, "--peer", args.peer,
               "-o", "json", *(["--fit", args.fit] if args.fit else []), *(["--svg", args.svg] if args.svg else [])]
    say("llmc reads the text")
    report = json.loads(run(command).stdout)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table(report))
    return 0


if __name__ == "__main__":
    run_main(main)
