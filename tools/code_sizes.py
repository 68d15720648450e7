#!/usr/bin/env python3
"""Measures the code of compiled models and prints compiler/plan/code_size_table.inc, from which
`llmc plan` estimates a library's size before anything is compiled (docs/memory.md).

    tools/code_sizes.py build/llmc >compiler/plan/code_size_table.inc
    tools/code_sizes.py build/llmc avx2 arm64@2      # rows of these alone

The shipped model is compiled in each format of weights and of the cache, and the sizes of its
functions are added up by what they belong to. Needs clang for every target and llvm-nm, llvm-size.
"""
import collections
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "models/tinyfable")
KINDS = ["f32", "f16", "q8", "q4"]  # WeightKind
LEVELS = [1, 2, 3]
# One for each format of weights, and for each difference between formats of the cache.
BUNDLES = [("q4", "f32"), ("q8", "f32"), ("f16", "f32"), ("f32", "f32"), ("f32", "K=f32,V=int8"),
           ("f32", "K=f16,V=f32"), ("f32", "f16"), ("f32", "K=int8,V=f32"), ("f32", "int8"),
           ("f32", "K=int8,V=fp8")]


def tool(name):
    for candidate in (name + "-19", name):
        if subprocess.run(["which", candidate], capture_output=True).returncode == 0:
            return candidate
    sys.exit(f"{name} was not found")


def text_of(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


class Bundle:
    """Bytes of one compiled model: `total`, of the `core`, and of functions by name."""

    def __init__(self, llmc, target, level, quant, kv):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "bundle")
            text_of(llmc, "compile", MODEL, "-q", "-o", out, "--target", target, "--weights=file",
                    "--opt-level", str(level), "--quant", quant, "--kv", kv, "--name", "m")
            with open(os.path.join(out, "m.plan.json"), encoding="utf-8") as plan:
                self.total = json.load(plan)["bytes"]["code"]
            library = glob.glob(os.path.join(out, "lib*.a"))[0]
            self.core = sum(
                int(line.split()[3]) for line in text_of(tool("llvm-size"), library).splitlines()[1:]
                if "m_model.o" not in line)
            text_of("sh", "-c", 'cd "$0" && "$1" x "$2" m_model.o', folder, tool("llvm-ar"), library)
            self.functions = []
            for line in text_of(tool("llvm-nm"), "-S", "-C", os.path.join(folder, "m_model.o")).splitlines():
                match = re.match(r"[0-9a-f]+ ([0-9a-f]+) \w (.*)", line)
                if match:
                    name = re.sub(r"llmc::(m_\w+::)?", "", match[2])
                    self.functions.append((int(match[1], 16), name))

    def kind(self, name):
        """WeightKind of the first matrix in a name; None without one."""
        match = re.search(r"Weight<\(WeightKind\)(\d+)", name)
        return int(match[1]) if match else None

    def stages(self, kind):
        """Bytes of linear stages of a kind, without their products: of plain ones, of those that
        store q, k and v, of those with a gate; of preparing rows; and of a stage's call."""
        plain, qkv, gated, prepares = [], [], [], []
        calls = 0
        for size, name in self.functions:
            if self.kind(name) != kind:
                continue
            if re.search(r"(^|\s)LinearTask<.*::work", name):
                (qkv if "QkvRope" in name else gated if " Gated<" in name else plain).append(size)
            elif re.search(r"(^|\s)PrepareTask<.*::work", name):
                prepares.append(size)
            elif re.search(r"(^|\s)linear<", name):
                calls += size
        count = len(plain) + len(qkv) + len(gated)
        return plain, qkv, gated, prepares, calls / count if count else 0

    def products(self, kind):
        """Bytes for each number of columns, and of what they share."""
        own, columns, shared = 0, set(), 0
        for size, name in self.functions:
            if re.search(r"LinearTask|PrepareTask|(^|\s)linear<|Attention", name):
                continue
            short = re.sub(r"^(void|float|int|unsigned \w+) ", "", name)
            if kind == 3:
                mine = re.match(r"q4_|.*Panels?<.*>::|.*ExactPanels|few_products<Q4Few", short)
            elif kind == 2:
                mine = re.match(r"coded_|vnni_codes|VnniCodes|VnniFew|few_products<CodedFew", short)
            else:
                mine = re.match(r"float_\w+<\(WeightKind\)%d" % kind, short)
            if not mine:
                continue
            numbers = re.findall(r"(\d+)ul", short.split("(unsigned char")[0])
            wide = [n for n in numbers if int(n) > 32]
            if wide:
                own += size
                columns.add(wide[0])
            else:
                shared += size
        return (own / len(columns) if columns else 0), shared


def row(llmc, target, level):
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        made = list(pool.map(lambda b: Bundle(llmc, target, level, *b), BUNDLES))
    by = dict(zip(BUNDLES, made))
    float_model = by["f32", "f32"]
    stage, prepare, product, shared, qkv_more, gated_more = [], [], [], [], [], []
    for k, name in enumerate(KINDS):
        plain, qkv, gated, prepares, call = by[name, "f32"].stages(k)
        if not plain and not gated:
            sys.exit(f"{target} at level {level}: no stage of {name} was found")
        if plain:
            average = sum(plain) / len(plain)
            qkv_more.append(sum(qkv) / len(qkv) - average)
            gated_more.append(sum(gated) / len(gated) - average)
        else:  # q4 of a narrow model has one with a gate alone
            average = sum(gated) / len(gated) - gated_more[-1]
        stage.append(average + call)
        prepare.append(sum(prepares) / len(prepares) if prepares else 0)
        own, once = by[name, "f32"].products(k)
        product.append(own)
        shared.append(once)
    attention = sum(size for size, name in float_model.functions
                    if re.search(r"(^|\s)(Attention|attend|attention)", name))
    qkv, gate = sum(qkv_more) / len(qkv_more), sum(gated_more) / len(gated_more)
    # What is left of the float model, which has two numbers of columns.
    plain, own_qkv, gated, prepares, call = float_model.stages(0)
    tasks = plain + own_qkv + gated
    base = float_model.total - float_model.core - sum(tasks) - sum(prepares) - call * len(tasks)
    base -= attention + product[0] * 2 + shared[0]
    base -= sum(size for size, name in float_model.functions if "kLayerWeights" in name)
    t = {kv: by["f32", kv].total - float_model.total for quant, kv in BUNDLES if quant == "f32"}
    int8_value = t["int8"] - t["K=int8,V=f32"]
    fp8_value = t["K=int8,V=fp8"] - t["K=int8,V=f32"]
    widened = t["K=f32,V=int8"] - int8_value
    f16_key, f16_value = t["K=f16,V=f32"] - widened, t["f16"] - t["K=f16,V=f32"]
    int8_key = t["K=int8,V=f32"] - widened

    def numbers(values):
        return "{" + ", ".join(str(round(v)) for v in values) + "}"

    first = (f'"{target}", {level}, {float_model.core}, {round(base)}, {round(attention)}, '
             f"{round(qkv)}, {round(gate)}")
    return ("{" + ", ".join([first, numbers(stage), numbers(prepare), numbers(product),
                             numbers(shared), str(round(widened)), numbers([0, f16_key, int8_key]),
                             numbers([0, f16_value, int8_value, fp8_value])]) + "},")


def main():
    llmc = sys.argv[1]
    targets = sys.argv[2:]
    if not targets:
        rows = json.loads(text_of(llmc, "targets", "--json"))["targets"]
        # Level 1 has one row for each architecture: that of its first target.
        first = {t["triple"]: t["name"] for t in reversed(rows)}.values()
        targets = [f"{t['name']}@{level}" for level in LEVELS for t in rows
                   if level > 1 or t["name"] in first]
    if len(sys.argv) == 2:
        print("// Made by tools/code_sizes.py; the columns are those of CodeSizes in code_size.cpp.")
    for one in targets:
        name, _, level = one.partition("@")
        print(row(llmc, name, int(level or 3)), flush=True)


if __name__ == "__main__":
    main()
