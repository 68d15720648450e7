"""What the scripts of this folder share: errors, running programs, medians."""
import datetime
import json
import os
import shutil
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


def run_main(main) -> None:
    """Runs a script's main() and exits with its result; an error becomes a line on stderr."""
    name = Path(sys.argv[0]).name
    try:
        sys.exit(main())
    except Failed as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        sys.exit(problem.code)
    except (subprocess.CalledProcessError, OSError) as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


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


def prepare_chroot(args, needs_onnx: bool = False, needs_headers: bool = False) -> None:
    """Sets it up the first time, or if a package is missing. Mounts are gone after a restart."""
    if os.geteuid() != 0:
        raise Misused("other programs run in a chroot, which needs root: run this with sudo")
    usr = args.folder / "sid/usr"
    needed = [usr / "bin/llama-bench"] + [usr / "lib/python3/dist-packages" / m for m in ("onnx", "onnxruntime") if needs_onnx]
    if needs_headers:
        needed.append(usr / "include/llama.h")
    if not all(path.exists() for path in needed):
        setup = Path(__file__).resolve().parent / "setup.sh"
        say(f"first run, or a package is missing: the other programs go into {args.folder} (about 5 minutes, 1 GB; {setup})")
        subprocess.run([setup, args.folder], check=True, stdout=sys.stderr)
        for path in needed:
            if not path.exists():
                raise Failed(f"{setup} did not install {path}")
    for name, place in (("proc", "/proc"), ("dev", "/dev"), ("models", args.folder / "models")):
        inside = args.folder / "sid" / name
        # os.path.ismount does not see a folder of the same file system.
        if subprocess.run(["mountpoint", "-q", inside], check=False).returncode != 0:
            run(["mount", "--bind", place, inside])


def require_llmc(args) -> None:
    """Checks that llmc was built. Without --target, sets the best target that runs here."""
    if not args.llmc.exists():
        raise Misused(f"{args.llmc} is missing: build it, or name the folder with --build")
    if not args.target:
        known = json.loads(run([args.llmc, "targets", "--json"]).stdout)["targets"]
        args.target = [t["name"] for t in known if t["runs"] and t["run_with"] == "natively"][-1]


def build_program(args, name: str, folder: Path) -> None:
    """Builds NAME.c, which calls llama.cpp's library, in a folder that the chroot sees."""
    root, source = args.folder / "sid", Path(__file__).resolve().parent / f"{name}.c"
    libraries = next((root / "usr/lib").glob("*/libllama.so")).parent
    # This machine's compiler and C library; those of the chroot are newer.
    run(["cc", "-O2", "-D_GNU_SOURCE", "-I", root / "usr/include", "-o", folder / name, source, libraries / "libllama.so",
         libraries / "libggml.so", "-lm", "-Wl,--allow-shlib-undefined"])


def clock(args) -> dict:
    """The environment in which programs, inside of the chroot too, measure the time of --clock."""
    if args.clock == "wall":
        return dict(os.environ)
    library = args.folder / "processor_clock.so"
    if not library.exists():
        # The same path outside and inside of the chroot.
        inside = args.folder / "sid" / library.relative_to("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        run(["cc", "-O2", "-shared", "-fPIC", "-o", inside, Path(__file__).resolve().parent / "processor_clock.c"])
        shutil.copy(inside, library)
    return {**os.environ, "LD_PRELOAD": str(library)}


def load() -> float:
    return os.getloadavg()[0]


def spread(values: list) -> str:
    """The median and, in brackets, the least and the greatest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"
