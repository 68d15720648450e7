#!/usr/bin/env python3
"""Counts the instructions a compiled model executes per token, under emulation, on one thread.

    tools/instructions.py MODEL [--target arm64,lasx] [--opt-level 3,2,1] [--quant q4m] [--functions]

MODEL is compiled for every target and level, linked to tools/instructions/counted.c and run under qemu with
a plugin that counts. Three runs give two slopes, so what happens once (start-up, a first chunk) is in
neither: instructions per prompt token, in chunks of 32, are those between a prompt of 32 and one
of 96 ids; per generated token (forward pass, head, greedy sampling), those between 0 and 32 ids behind a
prompt of 32. Counts are exact: two runs of the same program give the same ones.

The first table has all instructions, of them those on vectors, and how many times those of level 3 they
are; the second what the products of each weight format take for a multiply-add.

Needs tools/instructions/setup.sh to have been run once.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HERE = os.path.join(ROOT, "tools", "instructions")
TARGETS = ["avx2", "arm64", "arm64-i8mm", "lasx"]
PROMPT, LONG_PROMPT, GENERATED = 32, 96, 32

Counts = collections.namedtuple("Counts", "all vector scalar")


class Failure(Exception):
    pass


def run(command, **options):
    try:
        result = subprocess.run(command, capture_output=True, text=True, **options)
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from error
    if result.returncode != 0:
        raise Failure(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def read_counts(path):
    """The plugin's file: {function: Counts}, with the total under None."""
    counts = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if fields[0] in ("function", "total"):
                name = fields[1] if fields[0] == "function" else None
                counts[name] = Counts(*map(int, fields[-3:]))
    if None not in counts:
        raise Failure(f"{path}: the plugin wrote no total")
    return counts


def slope(more, less, tokens):
    """{function: instructions per token}; functions that did not differ are left out."""
    none = Counts(0, 0, 0)
    result = {}
    for name in more.keys() | less.keys():
        a, b = more.get(name, none), less.get(name, none)
        if a != b:
            result[name] = Counts(*((x - y) / tokens for x, y in zip(a, b)))
    return result


def format_of(function):
    """Format of the weights a product's function multiplies, as the plan names it; None for all others."""
    for name, pattern in [("q4", r"\bq4_(exact_)?panels?_"), ("q8", r"\bcoded_panels?_.*CodedFormat\{8"),
                          ("q6", r"\bcoded_panels?_.*CodedFormat\{6"),
                          ("coded 4 bits", r"\bcoded_panels?_.*CodedFormat\{4"), ("float", r"\bfloat_panels?")]:
        if re.search(pattern, function):
            return name
    return None


def multiply_adds(plan):
    """Multiply-adds of the linear layers per token, {format: (generated, prompt)}. Only the last token of a
    prompt goes through the head."""
    sums = collections.defaultdict(lambda: [0, 0])
    for weight in plan["weights"]:
        kind = weight["format"]
        if weight["columns"] > 1 and not kind.startswith("table") and "norm" not in weight["role"]:
            kind = {"f16": "float", "f32": "float"}.get(kind, kind)
            kind = "q8" if kind.startswith("int8/") else "coded 4 bits" if kind.startswith("int4/") else kind
            size = weight["rows"] * weight["columns"]
            sums[kind][0] += size
            sums[kind][1] += 0 if weight["role"] == "head" else size
    return {kind: tuple(sizes) for kind, sizes in sums.items()}


def kind_of(function):
    """What a function of a compiled model does, for `--functions`."""
    if format_of(function):
        return "products"
    for kind, pattern in [
            ("fma of portable code", r"::portable::"),
            ("norm, quantize", r"PrepareTask"),
            ("epilogues, with one token also norm and quantize", r"LinearTask"),
            ("attention", r"attend|Attention|attention"),
            ("rotation's angles", r"rope"),
            ("embedding", r"embedding"),
            ("sampling", r"sampl|draw|softmax|Candidate")]:
        if re.search(pattern, function):
            return kind
    return "rest"


def short(function):
    function = re.sub(r"llmc::\w+::|\((?:llmc::\w+::)?\w+Kind\)|(?<=\d)ul\b|\(anonymous namespace\)::", "", function)
    return re.sub(r"\(.*\)$", "", function).removeprefix("void ")


def demangle(counts):
    names = [name for name in counts if name is not None]
    text = run(["llvm-cxxfilt-19"], input="\n".join(names) + "\n")
    return {None: counts.get(None), **{n: counts[m] for m, n in zip(names, text.splitlines())}}


class Counter:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        cross = os.environ.get("LLMC_CROSS_DIR", os.path.join(ROOT, "build", "cross"))
        self.plugins = os.path.join(cross, "plugins")
        if not os.path.exists(os.path.join(self.plugins, "count.so")):
            raise Failure(f"{self.plugins}/count.so is missing; run tools/instructions/setup.sh once")
        self.targets = {t["name"]: t for t in json.loads(run([options.llmc, "targets", "--json"]))["targets"]}

    def compile(self, target, level):
        bundle = os.path.join(self.folder, f"{target}-{level}")
        run([self.options.llmc, "compile", self.options.model, "--target", target, "--opt-level", str(level),
             "--quant", self.options.quant, "--ctx", "256", "--chunk", "32", "--name", "counted", "-q", "-o", bundle])
        program = os.path.join(bundle, "counted")
        run([os.environ.get("CC", "clang-19"), f"--target={self.targets[target]['triple']}", "-std=c11", "-O2",
             "-ffreestanding", "-nostdlibinc", "-nostdlib", "-static", "-fno-pie", "-fno-stack-protector",
             "-fuse-ld=lld", "-Wall", "-Wextra", "-Werror", f"-I{bundle}", '-DMODEL_HEADER="counted.h"',
             "-DMODEL_PREFIX=counted", "-DMODEL_MACRO=COUNTED", os.path.join(HERE, "counted.c"),
             os.path.join(bundle, "libcounted.a"), "-o", program])
        with open(os.path.join(bundle, "counted.plan.json"), encoding="utf-8") as file:
            return program, json.load(file)

    def count(self, target, program, prompt, generated):
        architecture = self.targets[target]["triple"].split("-")[0]
        out = program + ".counts"
        cpu = self.targets[target]["emulated_cpu"]
        run([os.path.join(self.plugins, f"qemu-{architecture}"), "-cpu", cpu, "-plugin",
             f"{os.path.join(self.plugins, 'count.so')},out={out}", program, str(prompt), str(generated)])
        return read_counts(out)

    def measure(self, target, level):
        print(f"{target}, level {level}", file=sys.stderr)
        program, plan = self.compile(target, level)
        base = self.count(target, program, PROMPT, 0)
        prompt = slope(self.count(target, program, LONG_PROMPT, 0), base, LONG_PROMPT - PROMPT)
        generated = slope(self.count(target, program, PROMPT, GENERATED), base, GENERATED)
        return {"target": target, "level": level, "multiply_adds": multiply_adds(plan),
                "generated": demangle(generated), "prompt": demangle(prompt)}


def millions(value):
    return f"{value / 1e6:.3f}" if value < 1e7 else f"{value / 1e6:.1f}"


def markdown(header, rows):
    lines = [header, ["---", "---:", *["---:"] * (len(header) - 2)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table(rows):
    level_3 = {row["target"]: row for row in rows if row["level"] == 3}
    lines = []
    for row in rows:
        line = [row["target"], str(row["level"])]
        for part in ("generated", "prompt"):
            total = row[part][None]
            base = level_3.get(row["target"])
            line += [millions(total.all), millions(total.vector),
                     f"{total.all / base[part][None].all:.2f}" if base else ""]
        lines.append(line)
    return markdown(["target", "level", "generated token", "vector", ": level 3", "prompt token", "vector",
                     ": level 3"], lines)


def products_table(rows):
    lines = []
    for row in rows:
        for kind, sizes in sorted(row["multiply_adds"].items()):
            line = [row["target"], str(row["level"]), kind]
            for part, size in zip(("generated", "prompt"), sizes):
                done = sum(c.all for name, c in row[part].items() if name is not None and format_of(name) == kind)
                line += [millions(size), f"{done / size:.4f}" if size else ""]
            lines.append(line)
    return markdown(["target", "level", "weights", "generated token", "each", "prompt token", "each"], lines)


def functions_table(row):
    text = []
    for part in ("generated", "prompt"):
        counts = {n: c for n, c in row[part].items() if n is not None}
        total = row[part][None].all
        text += [f"\n{row['target']}, level {row['level']}, {part} token\n", "| kind | instructions | share |",
                 "|---|---:|---:|"]
        kinds = collections.Counter()
        for name, count in counts.items():
            kinds[kind_of(name)] += count.all
        text += [f"| {k} | {v:,.0f} | {v / total:.1%} |" for k, v in kinds.most_common()]
        text += ["", "| function | instructions | vector | share |", "|---|---:|---:|---:|"]
        for name, count in sorted(counts.items(), key=lambda item: -item[1].all)[:14]:
            text.append(f"| `{short(name)}` | {count.all:,.0f} | {count.vector:,.0f} | {count.all / total:.1%} |")
    return "\n".join(text)


def as_json(rows):
    return json.dumps([{**row, **{part: {"total" if n is None else n: c._asdict() for n, c in row[part].items()}
                                  for part in ("generated", "prompt")}} for row in rows], indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--target", default="arm64,arm64-i8mm,lasx", help="of " + ", ".join(TARGETS))
    parser.add_argument("--opt-level", default="3")
    parser.add_argument("--quant", default="q4m")
    parser.add_argument("--functions", action="store_true", help="where the instructions go")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--llmc", default=os.path.join(ROOT, "build", "llmc"), help="default: build/llmc")
    options = parser.parse_args()
    targets, levels = options.target.split(","), options.opt_level.split(",")
    if unknown := [t for t in targets if t not in TARGETS]:
        parser.error(f"unknown target {unknown[0]}; there are {', '.join(TARGETS)}")
    if unknown := [level for level in levels if level not in ("1", "2", "3")]:
        parser.error(f"unknown level {unknown[0]}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            counter = Counter(options, folder)
            rows = [counter.measure(target, int(level)) for target in targets for level in levels]
    except Failure as failure:
        sys.exit(f"instructions: {failure}")
    if options.json:
        print(as_json(rows))
        return
    print(f"{options.model}, {options.quant}: million instructions per token\n\n{table(rows)}\n")
    print("million multiply-adds of linear layers, instructions of their products for each\n")
    print(products_table(rows))
    if options.functions:
        for row in rows:
            print(functions_table(row))


if __name__ == "__main__":
    main()
