"""Products alone: llmc's kernels, llama.cpp's product of the same kind of weights and onnxruntime's MatMulNBits, in turns."""
import json
import re
import shutil
import statistics
import subprocess
from pathlib import Path

from support import BACKENDS, Misused, chroot_python, cpu_backend, load, run, say, spread

HERE = Path(__file__).resolve().parent
# llmc's format -> llama.cpp's with the same kind of weights.
TYPES = {"q4": "q4_1", "f32": "f32", "f16": "f16"}
ONNXRUNTIME = "onnxruntime MatMulNBits"


def onnxruntime_command(args) -> list | None:
    """A Python that has onnxruntime: --onnxruntime-python, or the chroot's; None when there is none."""
    for python in ([[args.onnxruntime_python]] if args.onnxruntime_python else []) + [chroot_python(args)]:
        probe = [*map(str, python), "-c", "import onnxruntime, numpy"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return python
    return None


class Peers:
    """The other programs' products; a shape is (rows, columns, tokens)."""

    def __init__(self, args) -> None:
        self.args = args
        self.repetitions = args.repetitions * 4
        self.onnxruntime_version = ""
        for script in ("ggml_matmul.py", "onnxruntime_matmul.py"):
            shutil.copy(HERE / script, args.folder / "models" / script)
        self.onnxruntime_python = onnxruntime_command(args)
        if self.onnxruntime_python is None:
            say("no Python with onnxruntime and numpy: name one with --onnxruntime-python; it is left out")

    def llama(self, kind: str, backend: str, shape: tuple, threads: int) -> float:
        inside = "/" + str(cpu_backend(self.args, backend).relative_to(self.args.folder / "sid"))
        done = run([*chroot_python(self.args), "/models/ggml_matmul.py", inside, kind, *shape, threads, self.repetitions])
        return statistics.median(json.loads(done.stdout)["seconds"])

    def onnxruntime(self, shape: tuple, threads: int) -> float:
        folder = Path("/models") if self.onnxruntime_python[0] == "chroot" else HERE
        done = run([*self.onnxruntime_python, folder / "onnxruntime_matmul.py", *shape, threads, self.repetitions])
        result = json.loads(done.stdout)
        self.onnxruntime_version = result["version"]
        return statistics.median(result["seconds"])

    def llmc(self, target: str, kind: str, shape: tuple, threads: int) -> float:
        done = run([self.args.llmc, "bench", "--kernel", "gemm", "--format", kind, "--shape", "x".join(map(str, shape)), "--target", target,
                    "--opt-level", 3, "-t", threads, "-r", self.repetitions, "-o", "json"])
        return json.loads(done.stdout)["results"][0]["median_seconds"]

    def one_round(self, targets: list, shape: tuple, threads: int) -> dict:
        """Seconds by name: "llmc avx2 q4", "llama.cpp haswell q4_1", …"""
        seconds = {}
        for kind in self.args.formats:
            if kind == "q4" and self.onnxruntime_python is not None:
                seconds[ONNXRUNTIME] = self.onnxruntime(shape, threads)
            for target in targets:
                if kind in TYPES:
                    seconds[f"llama.cpp {BACKENDS[target]} {TYPES[kind]}"] = self.llama(TYPES[kind], BACKENDS[target], shape, threads)
                seconds[f"llmc {target} {kind}"] = self.llmc(target, kind, shape, threads)
        return seconds


def compare_products(args, targets: list) -> list:
    peers, results = Peers(args), []
    for text in args.shapes.split(","):
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
        if not match:
            raise Misused(f"--shapes {args.shapes}: write rows x columns x tokens, such as 5504x2048x128")
        shape = tuple(map(int, match.groups()))
        for threads in args.threads:
            rounds = []
            for number in range(args.rounds):
                say(f"{text}: round {number + 1} of {args.rounds}, {threads} threads (load {load():.1f})")
                rounds.append(peers.one_round(targets, shape, threads))
            macs = shape[0] * shape[1] * shape[2]
            results.append({"shape": text, "threads": threads, "macs": macs, "onnxruntime": peers.onnxruntime_version, "rounds": rounds})
    return results


def products_table(products: list) -> str:
    version = products[0]["onnxruntime"]
    text = ["### Products alone", "",
            "GFLOP/s (2 for a multiply-add), medians of the rounds; how many times faster llmc's kernel is (least–greatest) than llama.cpp's with "
            "weights of the same kind and the same instruction set, and than onnxruntime" + (f" {version}" if version else "") +
            "'s MatMulNBits (4 bits, blocks of 32, accuracy level 4). The weights of small products stay in the caches.", "",
            "| rows x columns x tokens | threads | | GFLOP/s | : llama.cpp | : onnxruntime |", "|---|---:|---|---:|---:|---:|"]
    for p in products:
        for name in p["rounds"][0]:
            rate = statistics.median(2e-9 * p["macs"] / r[name] for r in p["rounds"])
            cells = ["", ""]
            if name.startswith("llmc "):
                _, target, kind = name.split()
                others = [f"llama.cpp {BACKENDS[target]} {TYPES.get(kind)}", ONNXRUNTIME if kind == "q4" else ""]
                cells = [spread([r[o] / r[name] for r in p["rounds"]]) if o in p["rounds"][0] else "" for o in others]
            text.append(f"| {p['shape']} | {p['threads']} | {name} | {rate:.1f} | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"
