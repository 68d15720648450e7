"""What the scripts of this folder share: errors, running programs, medians."""
import datetime
import os
import statistics
import subprocess
import sys
from pathlib import Path

# llmc's target -> llama.cpp's CPU backend with the same instructions.
BACKENDS = {"avx2": "haswell", "avxvnni": "alderlake", "avx512": "icelake", "amx": "sapphirerapids"}


class Failed(Exception):
    """Ends the program with a message and 1."""

    code = 1


class Misused(Failed):
    """A mistake on the command line: 2."""

    code = 2


def say(text: str) -> None:
    print(f"[{datetime.datetime.now():%H:%M:%S}] {text}", file=sys.stderr, flush=True)


def run(argv: list, **keywords) -> subprocess.CompletedProcess:
    argv = [str(a) for a in argv]
    done = subprocess.run(argv, capture_output=True, text=True, **keywords)
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)}\nended with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}")
    return done


def chroot_python(args) -> list:
    return ["chroot", args.folder / "sid", "python3"]


def cpu_backend(args, backend: str) -> Path:
    """llama.cpp's library of a CPU backend, as seen from outside of the chroot."""
    libraries = next((args.folder / "sid").glob("usr/lib/*/ggml/backends0"))
    library = libraries / f"libggml-cpu-{backend}.so"
    if not library.exists():
        raise Failed(f"llama.cpp has no CPU backend {backend}: {sorted(p.name for p in libraries.iterdir())}")
    return library


def load() -> float:
    return os.getloadavg()[0]


def spread(values: list) -> str:
    """The median and, in brackets, the least and the greatest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"
