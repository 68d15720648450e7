"""What compare.py runs: the tests, the model files of both programs, and each program's rates."""
import json
import re
import shutil
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from support import BACKENDS, Failed, Misused, build_program, clock, cpu_backend, load, run, say

HERE = Path(__file__).resolve().parent
CONTEXT = 2048  # of llmc's bundles, unless tests need more
START_PROMPT = 8  # tokens that are read before the first one is generated
BATCH_PROMPT = 8  # of each sequence
# llmc's format of the cache -> llama.cpp's of the same size.
CACHES = {"f16": "f16", "int8": "q8_0"}


class Test(NamedTuple):
    """pp512: a prompt; tg64: generation; tg64@4096: behind 4096 tokens; tg16x4: of 4 sequences together; start: from the start of the
    process to the first token."""

    kind: str
    tokens: int = 0
    depth: int = 0
    sequences: int = 1

    @property
    def name(self) -> str:
        return (self.kind + (f"{self.tokens}" if self.tokens else "") + (f"x{self.sequences}" if self.sequences > 1 else "")
                + (f"@{self.depth}" if self.depth else ""))

    def context(self) -> int:
        return self.depth + self.tokens + BATCH_PROMPT


def parse_tests(text: str) -> list:
    tests = []
    for word in text.split(","):
        match = re.fullmatch(r"(pp|tg)([1-9]\d{0,4})(?:@([1-9]\d{0,4})|x([2-9]|1[0-6]))?", word)
        if word == "start":
            tests.append(Test("start"))
        elif match and not (match[4] and match[1] == "pp"):
            tests.append(Test(match[1], int(match[2]), int(match[3] or 0), int(match[4] or 1)))
        else:
            raise Misused(f"--tests {text}: write pp128, tg64, tg64@4096 (behind 4096 tokens), tg16x4 (4 sequences, up to 16) or start")
    return list(dict.fromkeys(tests))


def lengths(tests: list) -> list:
    """Options of both bench programs for the lengths of prompts and generated texts."""
    prompts, generations = (",".join(str(t.tokens) for t in tests if t.kind == kind) or "0" for kind in ("pp", "tg"))
    return ["-p", prompts, "-n", generations]


# ---- models


def prepare_llmc(args, shape: dict, target: str, tests: list) -> Path:
    name = shape["name"]
    model = args.folder / "llmc" / name
    if not (model / "llm_config.json").exists():
        say(f"{name}: writing the ONNX model")
        model.parent.mkdir(parents=True, exist_ok=True)
        run([args.build / "llmc-random-model", shape["known_as"], "--layers", shape["layers"], "-o", model])
    context = max([CONTEXT] + [test.context() for test in tests])
    sequences = max(test.sequences for test in tests)
    suffixes = [f"-{context}" if context > CONTEXT else "", f"-x{sequences}" if sequences > 1 else "", f"-{args.kv}" if args.kv != "f16" else ""]
    bundle = args.folder / "llmc" / f"{name}-{target}{''.join(suffixes)}"
    plans = list(bundle.glob("*.plan.json"))
    if not plans or plans[0].stat().st_mtime < args.llmc.stat().st_mtime:
        say(f"{name}: compiling for {target}")
        shutil.rmtree(bundle, ignore_errors=True)
        run([args.llmc, "compile", model, "--target", target, "--weights=file", "-q", "-c", context, "--kv", args.kv, "--sequences", sequences,
             "--batch", sequences, "-o", bundle])
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


# ---- contestants: each returns rates by test. A rate is tokens/s of all sequences, or starts/s


class Llama:
    """llama.cpp with one quantization and the CPU backend of one instruction set."""

    def __init__(self, args, shape: dict, quant: str, backend: str) -> None:
        self.args, self.kind, self.what = args, quant, backend
        self.model = f"/models/{shape['name']}-{quant}.gguf"
        self.library = cpu_backend(args, backend)
        self.alone = args.folder / f"only-{backend}"
        self.alone.mkdir(exist_ok=True)
        shutil.copy(self.library, self.alone)

    def run(self, *argv):
        # The other backends are hidden behind a mount that nobody else sees.
        script = 'mount --make-rprivate / && mount --bind "$0" "$1" && exec chroot "$2" "${@:3}"'
        sid = self.args.folder / "sid"
        done = run(["unshare", "-m", "bash", "-c", script, self.alone, self.library.parent, sid, *argv], env=clock(self.args))
        if f"libggml-cpu-{self.what}" not in done.stderr:
            raise Failed(f"{argv[0]} does not say that it loaded the backend {self.what}:\n{done.stderr[:1000]}")
        return done.stdout

    def bench(self, threads: int, depth: int, tests: list) -> dict:
        argv = ["llama-bench", "-m", self.model, "-t", threads, "-o", "jsonl", "-r", self.args.repetitions, "-v", *lengths(tests)]
        cache = CACHES[self.args.kv]
        if depth or cache != "f16":
            argv += ["-d", depth, "-fa", "1", "-ctk", cache, "-ctv", cache]
        rates = {}
        for line in self.run(*argv).splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                test = Test("tg" if row["n_gen"] else "pp", row["n_gen"] or row["n_prompt"], depth)
                rates[test.name] = statistics.median(row["samples_ts"])
        return rates

    def batch(self, threads: int, test: Test) -> float:
        # The repetitions are of whole programs.
        seconds = [float(self.run("/models/llama_steps", self.model, threads, BATCH_PROMPT, test.sequences, test.tokens))
                   for _ in range(self.args.repetitions)]
        return test.sequences * test.tokens / statistics.median(seconds)

    def start(self, threads: int) -> float:
        return start_rate(self.args, lambda: self.run("/models/llama_steps", self.model, threads, START_PROMPT, 1, 0))


class Llmc:
    """A bundle of llmc."""

    def __init__(self, args, bundle: Path, target: str) -> None:
        self.args, self.kind, self.what = args, "llmc", target
        self.bundle = bundle
        self.limits = {}  # samples by "target/test/threads/key of llmc bench"

    def bench_rows(self, threads: int, *options) -> dict:
        done = run([self.args.llmc, "bench", self.bundle, "-t", threads, "-r", self.args.repetitions, "-o", "json", *options],
                   env=clock(self.args))
        rates = {}
        for row in json.loads(done.stdout)["results"]:
            name = row["test"].replace(" @ d", "@").replace(" x ", "x")
            rates[name] = statistics.median(row["tokens"] * row["sequences"] / seconds for seconds in row["seconds"])
            for key in ("ratio_to_read_bandwidth", "ratio_to_peak", "read_bandwidth_bytes_per_second"):
                if key in row:
                    self.limits.setdefault(f"{self.what}/{name}/{threads}/{key}", []).append(row[key])
        return rates

    def bench(self, threads: int, depth: int, tests: list) -> dict:
        return self.bench_rows(threads, "-d", depth, *lengths(tests))

    def batch(self, threads: int, test: Test) -> float:
        return self.bench_rows(threads, "-p", 0, "-n", test.tokens, "--n-parallel", test.sequences)[test.name]

    def start(self, threads: int) -> float:
        ids = ",".join(str(7 * i + 5) for i in range(START_PROMPT))
        return start_rate(self.args, lambda: run([self.args.llmc, "run", self.bundle, "--ids", ids, "-n", 1, "--temp", 0, "--ignore-eos", "-q",
                                                  "-t", threads]))


def start_rate(args, start) -> float:
    """Starts per second. The first start, which reads files, is not counted."""
    seconds = []
    for _ in range(args.repetitions + 1):
        begin = time.monotonic()
        start()
        seconds.append(time.monotonic() - begin)
    return 1 / statistics.median(seconds[1:])


def rates_of(contestant, threads: int, tests: list) -> dict:
    rates = {}
    for depth in dict.fromkeys(t.depth for t in tests if t.kind != "start" and t.sequences == 1):
        rates.update(contestant.bench(threads, depth, [t for t in tests if t.kind != "start" and t.sequences == 1 and t.depth == depth]))
    for test in tests:
        if test.kind == "start":
            rates[test.name] = contestant.start(threads)
        elif test.sequences > 1:
            rates[test.name] = contestant.batch(threads, test)
    return rates


def compare_model(args, shape: dict, targets: list) -> dict:
    name, tests = shape["name"], args.tests
    llmc = [Llmc(args, prepare_llmc(args, shape, target, tests), target) for target in targets]
    for quant in args.quants:
        prepare_gguf(args, shape, quant)
    if any(t.kind == "start" or t.sequences > 1 for t in tests):
        build_program(args, "llama_steps", args.folder / "models")
    contestants = llmc + [Llama(args, shape, quant, BACKENDS[target]) for target in targets for quant in args.quants]
    rounds, loads = [], []  # rounds[i]["threads/contestant/test"]: rate, the median of a round's repetitions
    for number in range(args.rounds):
        this = {}
        try:
            for threads in args.threads:
                # Each round begins with another one: being first or last is nobody's advantage.
                turn = number % len(contestants)
                for contestant in contestants[turn:] + contestants[:turn]:
                    who = f"{contestant.kind} {contestant.what}"
                    say(f"{name}: round {number + 1} of {args.rounds}, {threads} threads, {who} (load {load():.1f})")
                    loads.append(load())
                    for test, rate in rates_of(contestant, threads, tests).items():
                        this[f"{threads}/{contestant.kind}/{contestant.what}/{test}"] = rate
        except KeyboardInterrupt:
            if not rounds:
                raise
            say(f"{name}: stopped; {len(rounds)} whole rounds count")
            args.shapes = ""
            break
        rounds.append(this)
        if args.json:  # so that nothing is lost whatever ends this
            args.json.write_text(json.dumps({"model": name, "rounds so far": rounds, "load": loads}, indent=1), encoding="utf-8")
    limits = {key: values for contestant in llmc for key, values in contestant.limits.items()}
    return {"model": name, "targets": targets, "threads": args.threads, "quants": args.quants, "kv": args.kv, "rounds": rounds,
            "limits": limits, "load": [min(loads), statistics.median(loads), max(loads)], "tests": [test.name for test in tests]}
