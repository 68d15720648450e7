#!/usr/bin/env python3
"""Runs llmc beside llama.cpp and onnxruntime on the same shapes in the same minutes, and prints the ratios.

    sudo tools/peers/compare.py                          # Qwen1.5-0.5B, 2 and 1 threads: about 30 minutes
    sudo tools/peers/compare.py --targets avx2 --threads 2 --rounds 5 --tests pp128,tg64
    sudo tools/peers/compare.py --models qwen1.5-0.5b,qwen1.5-1.8b --json all.json
    sudo tools/peers/compare.py --threads 2 --shapes '' --tests tg32@4096,pp128@4096    # behind 4096 tokens
    sudo tools/peers/compare.py --shapes '' --tests tg16x4,tg16x16,start --svg chart.svg

What happens:
 1. The first time, tools/peers/setup.sh puts llama.cpp and onnxruntime, as Debian packages them, into a chroot in --folder (1 GB).
 2. For each model a split ONNX model with random weights is written (llmc-random-model), compiled for every target that runs on this
    machine, and GGUF files of the same shape are written and quantized. They stay in --folder: 4 GB for Qwen1.5-0.5B, 12 GB for 1.8B.
 3. Rounds: one after the other, each contestant runs all tests. llama.cpp runs with each quantization and, of its CPU backends, the
    one of the instruction set it is compared in, and no other in sight: haswell for avx2, alderlake for avxvnni, icelake for avx512,
    sapphirerapids for amx. What the machine does in the meantime (look at the load that is printed) happens to all of them; a ratio is
    taken within a round, and the median, the least and the greatest of the rounds are printed. Behind other tokens, and with --kv int8
    (its q8_0), llama.cpp runs with flash attention. Several sequences and starts are run by llama_steps.c.
 4. Products alone (products.py): llama.cpp's in Q4_1 and f32, and onnxruntime's MatMulNBits (4 bits, blocks of 32, accuracy level 4),
    beside `llmc bench --kernel gemm` in q4 and f32.

Ctrl-C ends the rounds; those that are whole count. Root is needed for the chroot alone. llmc and llmc-random-model are taken from --build."""
import argparse
import datetime
import json
import os
import re
from pathlib import Path

from contest import CACHES, compare_model, parse_tests
from products import compare_products, products_table
from report import chart, machine_text, model_tables
from support import BACKENDS, Failed, Misused, prepare_chroot, run, run_main

ROOT = Path(__file__).resolve().parent.parent.parent
QUANTS = ["Q4_0", "Q4_1", "Q4_K_M"]
SHAPE_NUMBERS = ["hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "vocabulary", "experts", "used"]


# ---- what this machine is


def first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def machine(args) -> dict:
    fields = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags", "").split()
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (first_line(str(index / n)) for n in ("level", "type", "size"))
        shared = first_line(str(index / "shared_cpu_list"))
        caches.append(f"L{level} {kind.lower()} {size} (processors {shared})")
    shown = ["avx2", "f16c", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"]
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="utf-8"))
    package = run(["chroot", args.folder / "sid", "dpkg-query", "-W", "-f", "${Version}", "llama.cpp"]).stdout
    return {
        "processor": fields.get("model name", "?"),
        "family_model_stepping": "/".join(fields.get(k, "?") for k in ("cpu family", "model", "stepping")),
        "processors": os.cpu_count(),
        "virtual": "hypervisor" in flags,
        "instructions": [f for f in shown if f in flags],
        "caches": caches,
        "memory_gib": round(int(memory.group(1)) / 2**20, 1) if memory else None,
        "kernel": os.uname().release,
        "llama.cpp": package,
        "llmc": run([args.llmc, "--version"]).stdout.strip(),
        "date": f"{datetime.date.today()}",
    }


# ---- models


def shapes(args) -> dict:
    """What llmc-random-model --list knows, by name."""
    lines = run([args.build / "llmc-random-model", "--list"]).stdout.splitlines()
    header = lines[0].split()
    found = {}
    for line in lines[1:]:
        row = dict(zip(header, line.split()))
        shape = {key: int(row[key]) for key in SHAPE_NUMBERS}
        shape.update(name=row["name"], known_as=row["name"], tied=row["tied"] == "yes", bias=row["bias"] == "yes")
        found[row["name"]] = shape
    return found


def native_targets(args) -> list:
    """Targets that this processor runs and llama.cpp has a backend for, as `llmc targets` orders them: the best one last."""
    known = json.loads(run([args.llmc, "targets", "--json"]).stdout)["targets"]
    return [t["name"] for t in known if t["runs"] and t["run_with"] == "natively" and t["name"] in BACKENDS]


# ---- the command


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="qwen1.5-0.5b", help="shapes of llmc-random-model, with commas (default: %(default)s)")
    parser.add_argument("--threads", default="2,1", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--tests", default="pp18,pp128,pp512,tg64",
                        help="pp512: a prompt; tg64: generation; tg64@4096: behind 4096 tokens; tg16x4: of 4 sequences together; start: from "
                        "the start of the process to the first token (default: %(default)s)")
    parser.add_argument("--kv", choices=CACHES, default="f16", help="the cache's format; llama.cpp's q8_0 is beside int8 (default: %(default)s)")
    parser.add_argument("--targets", default="", help="llmc's targets (default: avx2 and the best of those that run here; all: all)")
    parser.add_argument("--quants", default=",".join(QUANTS), help="llama.cpp's quantizations (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--repetitions", type=int, default=2, help="of each test in a round (default: %(default)s)")
    parser.add_argument("--shapes", default="11008x4096x128,5504x2048x128,5504x2048x1", help="products; none: '' (default: %(default)s)")
    parser.add_argument("--formats", default="q4,f32", help="llmc's formats in products (default: %(default)s)")
    parser.add_argument("--onnxruntime-python", default="", help="a Python with onnxruntime and numpy (default: the chroot's)")
    parser.add_argument("--layers", type=int, help="in place of the shape's")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall",
                        help="processor: the processor time of one thread, which hardly depends on what else runs (default: wall)")
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache/llmc-peers", help="default: %(default)s")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where llmc was built (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--svg", type=Path, help="draw the ratios to this file")
    args = parser.parse_args()
    args.threads = [int(t) for t in args.threads.split(",")]
    args.quants, args.formats = args.quants.split(","), args.formats.split(",")
    args.folder, args.llmc = args.folder.resolve(), args.build.resolve() / "llmc"
    if args.rounds < 1 or args.repetitions < 1 or min(args.threads) < 1:
        parser.error("--rounds, --repetitions and --threads are 1 or more")
    args.tests = parse_tests(args.tests)
    if args.clock == "processor" and any(test.kind == "start" for test in args.tests):
        parser.error("--clock processor does not measure start, which is wall time")
    if args.clock == "processor" and (args.threads != [1] or args.shapes):
        parser.error("--clock processor needs --threads 1 and --shapes '': threads that wait for each other take processor time too")
    return args


def chosen_targets(args) -> list:
    native = native_targets(args)
    if args.targets in ("", "all"):
        chosen = native if args.targets == "all" else list(dict.fromkeys(native[:1] + native[-1:]))
    else:
        chosen = args.targets.split(",")
        for target in chosen:
            if target not in native:
                raise Misused(f"--targets {target}: here run {', '.join(native)}")
    if not chosen:
        raise Failed("no target of llmc that llama.cpp has a backend for runs on this machine")
    return chosen


def main() -> int:
    args = parse()
    for program in (args.llmc, args.build / "llmc-random-model"):
        if not program.exists():
            raise Misused(f"{program} is missing: build it, or name the folder with --build")
    prepare_chroot(args, needs_headers=any(t.kind == "start" or t.sequences > 1 for t in args.tests))
    targets, known = chosen_targets(args), shapes(args)
    names = [n for n in args.models.split(",") if n]
    for name in names:
        if name not in known:
            raise Misused(f"--models {name}: llmc-random-model knows {', '.join(known)}")
    description, results, products = machine(args), [], []
    for name in names:
        shape = known[name]
        if args.layers:
            shape.update(name=f"{name}-{args.layers}", layers=args.layers)
        results.append(compare_model(args, shape, targets))
    if args.shapes:
        products = compare_products(args, targets)
    if args.json:
        args.json.write_text(json.dumps({"machine": description, "models": results, "products": products}, indent=1), encoding="utf-8")
    if args.svg:
        args.svg.write_text(chart(results, f"llmc beside llama.cpp: {', '.join(names)}, {description['processor']}"), encoding="utf-8")
    print(machine_text(description, results))
    for result in results:
        print(model_tables(result))
    if products:
        print(products_table(products))
    return 0


if __name__ == "__main__":
    run_main(main)
