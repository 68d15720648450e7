#!/usr/bin/env python3
"""Runs llmc beside onnxruntime on encoders of images, sound and text in f32, on the same ONNX files in the same minutes.

    sudo tools/peers/graphs.py                                    # eight architectures of transformers, 1 thread
    sudo tools/peers/graphs.py --models resnet-50 --quants f32,q8 --threads 1,2 --rounds 5
    sudo tools/peers/graphs.py --models model.onnx                # your own, with fixed dims

What happens:
 1. The first time, tools/peers/setup.sh puts onnxruntime into a chroot in --folder (1 GB), and this script torch and transformers
    (3 GB), unless all models are files.
 2. Each model is exported with random weights (export_graph.py). The files stay in --folder.
 3. Rounds: one after the other, each contestant runs the model --repetitions times. Whoever begins changes from round to round. A
    ratio is taken within a round; the median, the least and the greatest of the rounds are printed.

onnxruntime runs the file as it is, with all its optimizations; llmc in each of --quants."""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from export_graph import GRAPHS
from support import Failed, Misused, chroot_python, load, prepare_chroot, require_llmc, run, run_main, say, spread

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEER = "onnxruntime"


def prepare(args, name: str) -> Path:
    """The model's file in the folder that the chroot sees."""
    models = args.folder / "models"
    if name.endswith(".onnx"):
        given = Path(name)
        if not given.is_file():
            raise Misused(f"--models {name}: no such file")
        copy = models / "graphs" / f"{given.stem}-{given.stat().st_size}.onnx"
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(given, copy)
        return copy
    path = models / "graphs" / f"{name}.onnx"
    if path.exists():
        return path
    if not (args.folder / "sid/usr/lib/python3/dist-packages/transformers").exists():
        say("installing torch and transformers into the chroot (some minutes, 3 GB)")
        subprocess.run(["chroot", args.folder / "sid", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y",
                        "--no-install-recommends", "python3-torch", "python3-transformers"], check=True, stdout=sys.stderr)
    say(f"{name}: exporting")
    path.parent.mkdir(exist_ok=True)
    shutil.copy(HERE / "export_graph.py", models)
    run([*chroot_python(args), "/models/export_graph.py", name, f"/models/graphs/{name}.part"])
    path.with_name(f"{name}.part").rename(path)
    return path


def seconds(args, path: Path, contestant: str, threads: int) -> float:
    """The median of the repetitions."""
    if contestant == PEER:
        done = run([*chroot_python(args), "/models/onnxruntime_model.py", "time", f"/models/graphs/{path.name}", threads,
                    args.repetitions, 1, 1])
        return statistics.median(json.loads(done.stdout))
    done = run([args.llmc, "bench", path, "--target", args.target, "--quant", contestant.split()[1], "-t", threads, "-r",
                args.repetitions, "-o", "json"])
    return statistics.median(json.loads(done.stdout)["results"][0]["seconds"])


def rounds(args, name: str, path: Path) -> dict:
    contestants = [f"llmc {quant}" for quant in args.quants] + [PEER]
    result, loads = [], []
    for number in range(args.rounds):
        this, turn = {}, number % len(contestants)
        for threads in args.threads:
            for contestant in contestants[turn:] + contestants[:turn]:
                say(f"{name}: round {number + 1} of {args.rounds}, {threads} threads, {contestant} (load {load():.1f})")
                loads.append(load())
                this[f"{threads}/{contestant}"] = seconds(args, path, contestant, threads)
        result.append(this)
    return {"model": name, "rounds": result, "load": [min(loads), statistics.median(loads), max(loads)]}


def rows(args, result: dict) -> list:
    lines = []
    for threads in args.threads:
        peer = [1e3 * r[f"{threads}/{PEER}"] for r in result["rounds"]]
        for quant in args.quants:
            own = [1e3 * r[f"{threads}/llmc {quant}"] for r in result["rounds"]]
            ratios = [b / a for a, b in zip(own, peer)]
            lines.append(f"| {Path(result['model']).stem} | {threads} | {quant} | {spread(own)} | {spread(peer)} | {spread(ratios)} |")
    return lines


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(GRAPHS), help="names, or .onnx files (default: %(default)s)")
    parser.add_argument("--threads", default="1", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--quants", default="f32", help="llmc's formats (default: %(default)s)")
    parser.add_argument("--target", default="", help="llmc's target (default: the best that runs here)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--repetitions", type=int, default=5, help="in a round (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache/llmc-peers", help="default: %(default)s")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where llmc was built (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    args = parser.parse_args()
    try:
        args.threads = [int(t) for t in args.threads.split(",")]
    except ValueError:
        parser.error(f"--threads {args.threads}: numbers, separated by commas")
    args.models, args.quants = args.models.split(","), args.quants.split(",")
    args.folder, args.llmc = args.folder.resolve(), args.build.resolve() / "llmc"
    if min(args.rounds, args.repetitions, *args.threads) < 1:
        parser.error("--rounds, --repetitions and --threads are 1 or more")
    for name in args.models:
        if name not in GRAPHS and not name.endswith(".onnx"):
            parser.error(f"--models {name}: there are {', '.join(GRAPHS)}, and .onnx files")
    return args


def main() -> int:
    args = parse()
    require_llmc(args)
    prepare_chroot(args, needs_onnx=True)
    shutil.copy(HERE / "onnxruntime_model.py", args.folder / "models")
    results, text = [], []
    for name in args.models:
        try:
            results.append(rounds(args, name, prepare(args, name)))
        except Failed as problem:  # the others are still worth measuring
            say(f"{name}: {problem}")
            continue
        text += rows(args, results[-1])
        if args.json:
            args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if not results:
        raise Failed("no model could be measured")
    loads = [value for result in results for value in result["load"]]
    print(f"Milliseconds, {args.target}, median of {args.rounds} rounds (least–greatest); load {min(loads):.1f} to {max(loads):.1f}. "
          "The ratio is onnxruntime's time over llmc's.\n")
    print("| model | threads | format | llmc | onnxruntime | ratio |\n|---|---:|---|---:|---:|---:|")
    print("\n".join(text))
    return 0 if len(results) == len(args.models) else 1


if __name__ == "__main__":
    run_main(main)
