#!/usr/bin/env python3
"""Checks the documentation: relative links and their anchors, paths of this repository between
backticks, and lines of at most 100 columns. Exits with 1 and one line per violation."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_COLUMNS = 100
FOLDERS = ("compiler", "passes", "templates", "runtime", "tools", "tests", "models", "docs")
GENERATED = {"docs/conformance.md"}  # tests/conformance
ANY_WIDTH = GENERATED | {"CHANGELOG.md", "templates/llmc/README.md"}


def anchors(page: Path) -> set[str]:
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-"))
    return found


def check_links(page: Path, text: str) -> list[str]:
    problems = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists():
            problems.append(f"no such file: {link}")
        elif anchor and anchor not in anchors(target):
            problems.append(f"no such heading: {link}")
    return problems


def check_paths(text: str) -> list[str]:
    problems = []
    for path in re.findall(r"`((?:%s)/[\w./*-]+)`" % "|".join(FOLDERS), text):
        if "NAME" not in path and not list(ROOT.glob(path.rstrip("/"))):
            problems.append(f"no such path: {path}")
    return problems


def check_width(text: str) -> list[str]:
    problems, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if not fenced and not line.startswith(("|", "    ")) and len(line) > MAX_COLUMNS:
            problems.append(f"line {number} has {len(line)} columns, more than {MAX_COLUMNS}")
    return problems


def main() -> int:
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.split()
    problems = []
    for name in names:
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        found = check_links(page, text)
        if name != "CHANGELOG.md" and not name.startswith("docs/decisions/"):  # of their time
            found += check_paths(text)
        if name not in ANY_WIDTH:
            found += check_width(text)
        problems += [f"{name}: {problem}" for problem in found]
    print("\n".join(problems) if problems else f"{len(names)} pages are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
