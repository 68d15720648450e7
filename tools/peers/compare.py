#!/usr/bin/env python3
"""Runs llmc beside llama.cpp and onnxruntime on the same shapes in the same minutes, and prints the ratios.

    sudo tools/peers/compare.py                          # Qwen1.5-0.5B, 2 and 1 threads: about 30 minutes
    sudo tools/peers/compare.py --targets avx2 --threads 2 --rounds 5 --tests pp128,tg64
    sudo tools/peers/compare.py --models qwen1.5-0.5b,qwen1.5-1.8b --json all.json
    sudo tools/peers/compare.py --threads 2 --shapes '' --tests tg32@4096,pp128@4096    # behind 4096 tokens

What happens:
 1. The first time, tools/peers/setup.sh puts llama.cpp and onnxruntime, as Debian packages them, into a chroot in --folder (1 GB).
 2. For each model a split ONNX model with random weights is written (llmc-random-model), compiled for every target that runs on this
    machine, and GGUF files of the same shape are written and quantized. They stay in --folder: 4 GB for Qwen1.5-0.5B, 12 GB for 1.8B.
 3. Rounds: one after the other, each contestant runs all tests. llama.cpp runs with each quantization and, of its CPU backends, the
    one of the instruction set it is compared in, and no other in sight: haswell for avx2, alderlake for avxvnni, icelake for avx512,
    sapphirerapids for amx. What the machine does in the meantime (look at the load that is printed) happens to all of them; a ratio is
    taken within a round, and the median, the least and the greatest of the rounds are printed. Behind other tokens llama.cpp runs
    with flash attention; both caches are f16.
 4. Products alone (products.py): llama.cpp's in Q4_1 and f32, and onnxruntime's MatMulNBits (4 bits, blocks of 32, accuracy level 4),
    beside `llmc bench --kernel gemm` in q4 and f32.

Ctrl-C ends the rounds; those that are whole count. Root is needed for the chroot alone. llmc and llmc-random-model are taken from --build."""
import argparse
import datetime
import json
import os
import re
import shutil
import statistics
from pathlib import Path

from products import compare_products, products_table
from support import BACKENDS, Failed, Misused, clock, cpu_backend, load, prepare_chroot, run, run_main, say, spread

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
QUANTS = ["Q4_0", "Q4_1", "Q4_K_M"]
CONTEXT = 2048  # of llmc's bundles, unless tests need more
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


def prepare_llmc(args, shape: dict, target: str, context: int) -> Path:
    name = shape["name"]
    model = args.folder / "llmc" / name
    if not (model / "llm_config.json").exists():
        say(f"{name}: writing the ONNX model")
        model.parent.mkdir(parents=True, exist_ok=True)
        run([args.build / "llmc-random-model", shape["known_as"], "--layers", shape["layers"], "-o", model])
    bundle = args.folder / "llmc" / (f"{name}-{target}" + (f"-{context}" if context > CONTEXT else ""))
    plans = list(bundle.glob("*.plan.json"))
    if not plans or plans[0].stat().st_mtime < args.llmc.stat().st_mtime:
        say(f"{name}: compiling for {target}")
        shutil.rmtree(bundle, ignore_errors=True)
        run([args.llmc, "compile", model, "--target", target, "--weights=file", "-q", "-c", context, "-o", bundle])
    return bundle


def prepare_gguf(args, shape: dict, quant: str) -> None:
    name = shape["name"]
    made = args.folder / "models" / f"{name}-{quant}.gguf"
    if made.exists():
        return
    plain = args.folder / "models" / f"{name}-f16.gguf"
    chroot = ["chroot", args.folder / "sid", "env", "TMPDIR=/models"]
    if not plain.exists():
        say(f"{name}: writing the GGUF file")
        shutil.copy(HERE / "make_gguf.py", args.folder / "models" / "make_gguf.py")
        run([*chroot, "python3", "/models/make_gguf.py", json.dumps(shape), "/models/part.gguf"])
        (args.folder / "models" / "part.gguf").rename(plain)
    say(f"{name}: quantizing to {quant}")
    run([*chroot, "llama-quantize", f"/models/{plain.name}", "/models/part.gguf", quant])
    (args.folder / "models" / "part.gguf").rename(made)


# ---- contestants: each returns {"pp128": [tokens/s, ...], ...}


def run_llama(args, name: str, quant: str, backend: str, threads: int, depth: int, prompts: list, generations: list) -> dict:
    sid = args.folder / "sid"
    library = cpu_backend(args, backend)
    alone = args.folder / f"only-{backend}"
    alone.mkdir(exist_ok=True)
    shutil.copy(library, alone)
    argv = ["llama-bench", "-m", f"/models/{name}-{quant}.gguf", "-t", threads, "-o", "jsonl", "-r", args.repetitions, "-v",
            "-p", ",".join(map(str, prompts)) or "0", "-n", ",".join(map(str, generations)) or "0"]
    if depth:
        argv += ["-d", depth, "-fa", "1"]
    # The other backends are hidden behind a mount that nobody else sees.
    script = 'mount --make-rprivate / && mount --bind "$0" "$1" && exec chroot "$2" "${@:3}"'
    done = run(["unshare", "-m", "bash", "-c", script, alone, library.parent, sid, *argv], env=clock(args))
    if f"libggml-cpu-{backend}" not in done.stderr:
        raise Failed(f"llama-bench does not say that it loaded the backend {backend}:\n{done.stderr[:1000]}")
    rates = {}
    for line in done.stdout.splitlines():
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        test = f"pp{row['n_prompt']}" if row["n_gen"] == 0 else f"tg{row['n_gen']}"
        rates[at_depth(test, depth)] = row["samples_ts"]
    return rates


def run_llmc(args, bundle: Path, threads: int, depth: int, prompts: list, generations: list, limits: dict) -> dict:
    done = run([args.llmc, "bench", bundle, "-t", threads, "-r", args.repetitions, "-o", "json", "-d", depth, "-p",
                ",".join(map(str, prompts)) or "0", "-n", ",".join(map(str, generations)) or "0"], env=clock(args))
    report = json.loads(done.stdout)
    rates = {}
    for row in report["results"]:
        test = row["test"].replace(" @ d", "@")
        rates[test] = [row["tokens"] / seconds for seconds in row["seconds"]]
        for key in ("ratio_to_read_bandwidth", "ratio_to_peak", "read_bandwidth_bytes_per_second", "peak_macs_per_second"):
            if key in row:
                limits.setdefault(f"{report['target']}/{test}/{threads}/{key}", []).append(row[key])
    return rates


def at_depth(test: str, depth: int) -> str:
    return f"{test}@{depth}" if depth else test


def parse_tests(text: str) -> dict:
    """The lengths of prompts and of generated texts for each depth, the number of tokens before them."""
    tests = {}
    for word in text.split(","):
        match = re.fullmatch(r"(pp|tg)([1-9]\d{0,4})(?:@(\d{1,5}))?", word)
        if not match:
            raise Misused(f"--tests {text}: write tests as llama-bench names them, such as pp18,pp128,tg64, with @TOKENS behind others")
        prompts, generations = tests.setdefault(int(match.group(3) or 0), ([], []))
        (prompts if match.group(1) == "pp" else generations).append(int(match.group(2)))
    return tests


def compare_model(args, shape: dict, targets: list) -> dict:
    name = shape["name"]
    tests = parse_tests(args.tests)
    context = max([CONTEXT] + [depth + n for depth, lengths in tests.items() for n in sum(lengths, [])])
    bundles = {target: prepare_llmc(args, shape, target, context) for target in targets}
    for quant in args.quants:
        prepare_gguf(args, shape, quant)
    contestants = [("llmc", target) for target in targets]
    contestants += [(quant, BACKENDS[target]) for target in targets for quant in args.quants]
    # rounds[i][threads][contestant][test]: tokens/s, the median of a round's repetitions
    rounds, limits, loads = [], {}, []
    for number in range(args.rounds):
        this = {}
        try:
            for threads in args.threads:
                # Each round begins with another one: being first or last is nobody's advantage.
                turn = number % len(contestants)
                for kind, what in contestants[turn:] + contestants[:turn]:
                    say(f"{name}: round {number + 1} of {args.rounds}, {threads} threads, {kind} {what} (load {load():.1f})")
                    loads.append(load())
                    for depth, lengths in tests.items():
                        if kind == "llmc":
                            rates = run_llmc(args, bundles[what], threads, depth, *lengths, limits)
                        else:
                            rates = run_llama(args, name, kind, what, threads, depth, *lengths)
                        for test, samples in rates.items():
                            this[f"{threads}/{kind}/{what}/{test}"] = statistics.median(samples)
        except KeyboardInterrupt:
            if not rounds:
                raise
            say(f"{name}: stopped; {len(rounds)} whole rounds count")
            args.shapes = ""
            break
        rounds.append(this)
        if args.json:  # so that nothing is lost whatever ends this
            args.json.write_text(json.dumps({"model": name, "rounds so far": rounds, "load": loads}, indent=1), encoding="utf-8")
    return {"model": name, "targets": targets, "threads": args.threads, "quants": args.quants, "rounds": rounds, "limits": limits,
            "load": [min(loads), statistics.median(loads), max(loads)],
            "tests": [at_depth(f"{kind}{n}", depth) for depth, lengths in tests.items()
                      for kind, numbers in zip(("pp", "tg"), lengths) for n in numbers]}


# ---- tables


def ratios(result: dict, threads: int, test: str, target: str, peers: list) -> list:
    """llmc's target over the best of the peers [(quant, backend)], by round."""
    return [r[f"{threads}/llmc/{target}/{test}"] / max(r[f"{threads}/{quant}/{backend}/{test}"] for quant, backend in peers)
            for r in result["rounds"]]


def model_tables(result: dict) -> str:
    targets, tests = result["targets"], result["tests"]
    low, middle, high = result["load"]
    text = [f"### {result['model']}", "",
            f"llmc over llama.cpp, median of {len(result['rounds'])} rounds (least–greatest); load {low:.1f} to {high:.1f}, median {middle:.1f}.", "",
            "| threads | | " + " | ".join(tests) + " |", "|---:|---|" + "---:|" * len(tests)]
    rows = []
    for target in targets:
        backend = BACKENDS[target]
        rows.append((f"{target} : best with {backend}", target, [(q, backend) for q in result["quants"]]))
        if "Q4_1" in result["quants"]:
            rows.append((f"{target} : Q4_1 with {backend}", target, [("Q4_1", backend)]))
    if len(targets) > 1:
        everything = [(q, BACKENDS[t]) for q in result["quants"] for t in targets]
        rows.append((f"{targets[-1]} : best of all", targets[-1], everything))
    for threads in result["threads"]:
        for title, target, peers in rows:
            cells = [spread(ratios(result, threads, test, target, peers)) for test in tests]
            text.append(f"| {threads} | {title} | " + " | ".join(cells) + " |")
    text += ["", "Tokens/s, medians of the rounds:", "", "| threads | | " + " | ".join(tests) + " |", "|---:|---|" + "---:|" * len(tests)]
    for threads in result["threads"]:
        for target in targets:
            for kind, what in [("llmc", target)] + [(q, BACKENDS[target]) for q in result["quants"]]:
                cells = [f"{statistics.median(r[f'{threads}/{kind}/{what}/{test}'] for r in result['rounds']):.1f}" for test in tests]
                text.append(f"| {threads} | {kind} {what} | " + " | ".join(cells) + " |")
    text += ["", "llmc beside the limits measured in its own runs (medians): read bandwidth of as many threads for generation, the peak of the "
             "products' instructions for prompts:", "", "| threads | | " + " | ".join(tests) + " |", "|---:|---|" + "---:|" * len(tests)]
    for threads in result["threads"]:
        for target in targets:
            cells = []
            for test in tests:
                kind = "ratio_to_read_bandwidth" if test.startswith("tg") else "ratio_to_peak"
                values = result["limits"].get(f"{target}/{test}/{threads}/{kind}")
                cells.append(f"{100 * statistics.median(values):.0f} %" if values else "")
            text.append(f"| {threads} | {target} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def machine_text(m: dict, results: list) -> str:
    read = {}
    for result in results:
        for key, values in result["limits"].items():
            _, _, threads, what = key.rsplit("/", 3)
            if what == "read_bandwidth_bytes_per_second":
                read.setdefault(int(threads), []).extend(values)
    bandwidth = ", ".join(f"{statistics.median(v) * 1e-9:.1f} GB/s with {t}" for t, v in sorted(read.items()))
    lines = [f"- {m['processor']} (family/model/stepping {m['family_model_stepping']}), {m['processors']} processors"
             + (", virtual" if m["virtual"] else "") + f", {m['memory_gib']} GiB, Linux {m['kernel']}",
             f"- {', '.join(m['instructions'])}", f"- {'; '.join(m['caches'])}"]
    if bandwidth:
        lines.append(f"- read bandwidth: {bandwidth} threads")
    lines.append(f"- llama.cpp {m['llama.cpp']} (Debian), {m['llmc']}, {m['date']}")
    return "\n".join(lines) + "\n"


# ---- the command


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="qwen1.5-0.5b", help="shapes of llmc-random-model, with commas (default: %(default)s)")
    parser.add_argument("--threads", default="2,1", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--tests", default="pp18,pp128,pp512,tg64", help="default: %(default)s")
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
    args = parser.parse_args()
    args.threads = [int(t) for t in args.threads.split(",")]
    args.quants, args.formats = args.quants.split(","), args.formats.split(",")
    args.folder, args.llmc = args.folder.resolve(), args.build.resolve() / "llmc"
    if args.rounds < 1 or args.repetitions < 1 or min(args.threads) < 1:
        parser.error("--rounds, --repetitions and --threads are 1 or more")
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
    prepare_chroot(args)
    targets, known = chosen_targets(args), shapes(args)
    names = [n for n in args.models.split(",") if n]
    for name in names:
        if name not in known:
            raise Misused(f"--models {name}: llmc-random-model knows {', '.join(known)}")
    parse_tests(args.tests)
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
    print(machine_text(description, results))
    for result in results:
        print(model_tables(result))
    if products:
        print(products_table(products))
    return 0


if __name__ == "__main__":
    run_main(main)
