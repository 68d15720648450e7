#!/usr/bin/env python3
"""Holds the source tree to docs/architecture.md: who may include whom, CLI11 only in tools/, and
files of a size a reader can hold. Exits with 1 and one line per violation."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 450

BELOW_DRIVER = {"compiler/support", "compiler/ir", "compiler/onnx", "compiler/reference", "compiler/target",
                "compiler/quant", "compiler/calibrate", "compiler/plan", "compiler/emit", "passes", "templates",
                "runtime"}

# folder -> folders it may include from (itself always). The longest matching prefix counts.
ALLOWED = {
    "compiler/support": set(),
    "compiler/ir": {"compiler/support"},
    "compiler/onnx": {"compiler/support", "compiler/ir", "compiler/reference"},
    "compiler/reference": {"compiler/support", "compiler/ir"},
    "compiler/target": {"compiler/support", "compiler/ir", "templates"},
    "compiler/quant": {"compiler/support", "templates"},
    "compiler/calibrate": {"compiler/support", "compiler/ir", "compiler/reference", "compiler/quant"},
    "passes": {"compiler/support", "compiler/ir", "compiler/reference", "compiler/target"},
    "compiler/plan": {"compiler/support", "compiler/ir", "compiler/target", "compiler/quant", "templates",
                      "runtime/include"},
    "compiler/emit": {"compiler/support", "compiler/ir", "compiler/target", "compiler/quant",
                      "compiler/plan", "templates", "runtime/include"},
    "compiler/driver": BELOW_DRIVER,
    "compiler/exec": BELOW_DRIVER | {"compiler/driver"},
    "compiler/evaluate": BELOW_DRIVER | {"compiler/driver", "compiler/exec"},
    "compiler/bench": BELOW_DRIVER | {"compiler/driver", "compiler/exec"},
    "models": {"compiler/support"},
    "tools": {"compiler", "passes", "templates", "runtime", "models"},
    "templates": {"runtime/include"},
    "runtime/include": set(),
    "runtime/core": {"runtime/include"},
    "runtime/runner": {"runtime/include", "templates"},
    "runtime/hosted": {"runtime/include"},
}
# How an include path maps to a folder of the tree.
def folder_of(include: str) -> str | None:
    if include.startswith("llmc/"):
        for base in ("runtime/include", "templates"):
            if (ROOT / base / include).exists():
                return base
    if (ROOT / include).exists():
        return str(Path(include).parent)
    return None


def layer(path: str) -> str | None:
    best = None
    for prefix in ALLOWED:
        if (path == prefix or path.startswith(prefix + "/")) and (best is None or len(prefix) > len(best)):
            best = prefix
    return best


def main() -> int:
    names = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.c"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    problems = []
    for name in names:
        path = ROOT / name
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MAX_LINES and "/golden/" not in name:
            problems.append(f"{name}: {lines} lines, more than {MAX_LINES}")
        own = layer(name)
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if not match:
                continue
            include = match.group(1)
            if include.startswith("CLI/") and not name.startswith("tools/"):
                problems.append(f"{name}:{number}: CLI11 belongs to tools/ only")
            if re.match(r"(onnx|google/protobuf)/", include) and not name.startswith(("compiler/onnx/", "models/", "tests/")):
                problems.append(f"{name}:{number}: protobuf belongs to compiler/onnx and models only")
            if own is None:
                continue
            target = folder_of(include)
            if target is None and not (path.parent / include).exists():
                continue  # a system header
            if target is None:
                target = str((path.parent / include).resolve().parent.relative_to(ROOT))
            allowed = ALLOWED[own] | {own}
            if not any(target == a or target.startswith(a + "/") for a in allowed):
                problems.append(f"{name}:{number}: {own} may not include {include} ({target})")
    print("\n".join(problems) if problems else f"{len(names)} files keep the layering")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
