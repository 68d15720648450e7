#!/usr/bin/env python3
"""Runs llmc beside onnxruntime on models that are no plain decoders, on the same ONNX files in the same minutes, and prints the ratios.

    sudo tools/peers/encoders.py                               # T5-large, Whisper-small and BERT-base, 1 and 2 threads
    sudo tools/peers/encoders.py --models bert-base --rounds 5
    sudo tools/peers/encoders.py --threads 1 --clock processor # on a machine that others use

What happens:
 1. The first time, tools/peers/setup.sh puts onnxruntime into a chroot in --folder (1 GB).
 2. For each model, ONNX files with random weights are written (make_onnx.py), llmc compiles them in each of --quants, and
    onnxruntime.quantization.quantize_dynamic quantizes what is run to 8 bits. They stay in --folder: 6 GB for T5-large.
 3. Rounds: one after the other, each contestant generates --tokens tokens, attending to a source of 128 tokens or 3000 frames, or
    encodes a sequence of 128 tokens. Whoever begins changes from round to round. A ratio is taken within a round; the median, the
    least and the greatest of the rounds are printed.

`--clock processor` counts the processor time of one thread, which hardly depends on what else runs. Root is needed for the chroot
alone."""
import argparse
import json
import os
import shutil
import statistics
from pathlib import Path

from support import chroot_python, clock, load, prepare_chroot, require_llmc, run, run_main, say, spread

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# How long the source or sequence is.
SIZES = {"t5-base": 128, "t5-large": 128, "whisper-small": 3000, "bert-base": 128}
PEER = "onnxruntime int8"


class Contest:
    """One model: its files, and what each contestant takes for a unit of work, in seconds."""

    def __init__(self, args, name: str) -> None:
        self.args, self.name, self.size = args, name, SIZES[name]
        self.folder = args.folder / "models" / name
        self.generates = name != "bert-base"
        self.file = "decoder_with_past_model.onnx" if self.generates else "model.onnx"
        self.tokens = args.tokens if self.generates else 1
        self.clock = clock(args)

    def python(self, script: str, *argv, **keywords) -> str:
        # onnx and onnxruntime in one process complain on stderr about each other.
        return run([*chroot_python(self.args), f"/models/{script}", *argv], **keywords).stdout

    def prepare(self) -> None:
        for script in ("make_onnx.py", "onnxruntime_model.py"):
            shutil.copy(HERE / script, self.args.folder / "models" / script)
        if not self.folder.exists():
            say(f"{self.name}: writing the ONNX files")
            part = self.folder.with_name(f"{self.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            self.python("make_onnx.py", self.name, f"/models/{self.name}.part")
            part.rename(self.folder)
        quantized = self.folder.with_name(f"{self.name}-int8.onnx")
        if not quantized.exists():
            say(f"{self.name}: quantizing for onnxruntime")
            self.python("onnxruntime_model.py", "quantize", f"/models/{self.name}/{self.file}", f"/models/{self.name}.part.onnx")
            quantized.with_name(f"{self.name}.part.onnx").rename(quantized)
        for quant in self.args.quants if self.generates else []:
            bundle = self.bundle(quant)
            plans = list(bundle.glob("*.plan.json"))
            if not plans or plans[0].stat().st_mtime < self.args.llmc.stat().st_mtime:
                say(f"{self.name}: compiling in {quant}")
                run([self.args.llmc, "compile", self.folder, "--target", self.args.target, "--quant", quant, "--kv", self.args.kv,
                     "--weights=file", "-q", "-o", bundle])

    def bundle(self, quant: str) -> Path:
        return self.args.folder / "llmc" / f"{self.name}-{self.args.target}-{quant}-kv-{self.args.kv}"

    def bench(self, quant: str, threads: int, repetitions: int, tokens: int) -> list:
        """Seconds of each repetition."""
        if self.generates:
            what = [self.bundle(quant), "-p", 0, "-n", tokens, "--n-source", self.size]
        else:  # of a function not a bundle is measured, but the model; llmc keeps what it compiles
            what = [self.folder / self.file, "--target", self.args.target, "--quant", quant, "--dim", "batch_size=1",
                    "--dim", f"sequence_length={self.size}"]
        done = run([self.args.llmc, "bench", *what, "-t", threads, "-r", repetitions, "-o", "json"], env=self.clock)
        return json.loads(done.stdout)["results"][0]["seconds"]

    def contestants(self) -> list:
        return [f"llmc {quant}" for quant in self.args.quants] + [PEER]

    def rate(self, contestant: str, threads: int) -> float:
        """Tokens, or sequences, per second: the median of the repetitions."""
        if contestant == PEER:
            seconds = json.loads(self.python("onnxruntime_model.py", "time", f"/models/{self.name}-int8.onnx", threads,
                                             self.args.repetitions, self.source_rows(), self.tokens, env=self.clock))
        else:
            seconds = self.bench(contestant.split()[1], threads, self.args.repetitions, self.tokens)
        return self.tokens / statistics.median(seconds)

    def source_rows(self) -> int:
        """What the decoder attends to: Whisper halves the frames."""
        return self.size // 2 if self.name.startswith("whisper") else self.size

    def rounds(self) -> dict:
        rounds, loads, contestants = [], [], self.contestants()
        for number in range(self.args.rounds):
            this, turn = {}, number % len(contestants)
            for threads in self.args.threads:
                for contestant in contestants[turn:] + contestants[:turn]:
                    say(f"{self.name}: round {number + 1} of {self.args.rounds}, {threads} threads, {contestant} (load {load():.1f})")
                    loads.append(load())
                    this[f"{threads}/{contestant}"] = self.rate(contestant, threads)
            rounds.append(this)
        return {"model": self.name, "rounds": rounds, "load": [min(loads), statistics.median(loads), max(loads)],
                "unit": "tokens/s" if self.generates else f"sequences of {self.size} tokens/s"}


def table(args, result: dict) -> str:
    low, middle, high = result["load"]
    kv = "" if result["model"] == "bert-base" else f"--kv {args.kv}, "
    text = [f"### {result['model']}", "",
            f"{result['unit']}, {args.clock} time, {args.target}, {kv}median of {len(result['rounds'])} rounds (least–greatest); load "
            f"{low:.1f} to {high:.1f}, median {middle:.1f}.", "",
            "| threads | | llmc | onnxruntime int8 | ratio |", "|---:|---|---:|---:|---:|"]
    for threads in args.threads:
        peer = [r[f"{threads}/{PEER}"] for r in result["rounds"]]
        for quant in args.quants:
            own = [r[f"{threads}/llmc {quant}"] for r in result["rounds"]]
            ratios = [a / b for a, b in zip(own, peer)]
            text.append(f"| {threads} | {quant} | {spread(own)} | {spread(peer)} | {spread(ratios)} |")
    return "\n".join(text) + "\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="t5-large,whisper-small,bert-base", help=f"of {', '.join(SIZES)} (default: %(default)s)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--quants", default="q4,q8", help="llmc's formats (default: %(default)s)")
    parser.add_argument("--kv", default="f16", help="llmc's format of keys and values, those of the source too (default: %(default)s)")
    parser.add_argument("--target", default="", help="llmc's target (default: the best that runs here)")
    parser.add_argument("--tokens", type=int, default=64, help="generated in a repetition (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--repetitions", type=int, default=2, help="in a round (default: %(default)s)")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache/llmc-peers", help="default: %(default)s")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where llmc was built (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    args = parser.parse_args()
    args.threads = [int(t) for t in args.threads.split(",")]
    args.models, args.quants = args.models.split(","), args.quants.split(",")
    args.folder, args.llmc = args.folder.resolve(), args.build.resolve() / "llmc"
    if min(args.rounds, args.repetitions, args.tokens, *args.threads) < 1:
        parser.error("--rounds, --repetitions, --tokens and --threads are 1 or more")
    if args.clock == "processor" and args.threads != [1]:
        parser.error("--clock processor needs --threads 1: threads that wait for each other take processor time too")
    for name in args.models:
        if name not in SIZES:
            parser.error(f"--models {name}: there are {', '.join(SIZES)}")
    return args


def main() -> int:
    args = parse()
    require_llmc(args)
    prepare_chroot(args, needs_onnx=True)
    results = []
    for name in args.models:
        contest = Contest(args, name)
        contest.prepare()
        results.append(contest.rounds())
        print(table(args, results[-1]), flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_main(main)
