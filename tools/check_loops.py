#!/usr/bin/env python3
"""Checks the inner loops of the q4 products in a compiled library: nothing on the stack, no scalar
conversions, no calls.

    tools/check_loops.py LIBRARY_OR_OBJECT [--function REGEX] [--print]
    tools/check_loops.py --text DISASSEMBLY …          what llvm-objdump printed

In every function whose name matches, the loop is found, not told: among the innermost loops (a jump
backward with no other one inside) the one with the most vector multiplications. Exits with 1 and a
line for each finding; a file without such a function is a finding as well.
"""
import argparse
import collections
import re
import subprocess
import sys

# Multiplications of vectors, and how many products of integers one adds up (0: scaling).
MULTIPLICATIONS = [
    (r"vpdpbusd", 32), (r"vpmaddubsw", 32), (r"v?p?(maddwd|mul\w+)", 0), (r"vfn?m(add|sub)\d+ps", 8),
    (r"(us|u|s)mmla", 32), (r"(us|u|s)dot", 16), (r"bfdot|bfmmla", 0), (r"[su]?ml[as]l?2?|[su]mull2?|fml[as]", 0),
    (r"xvm(add|ul)w(ev|od)\.h\..*", 16), (r"vm(add|ul)w(ev|od)\.h\..*", 8), (r"xv(mul|madd|mulw|maddw)\S*", 0),
    (r"v(mul|madd|mulw|maddw)\S*", 0), (r"xvfn?m(add|sub)\.s", 8), (r"vfn?m(add|sub)\.s", 4)]
STACK = re.compile(r"%rsp|\bsp\b|\$sp\b")
# A frame pointer is one only where the function sets it up; otherwise it is a register like any other.
FRAMES = [(re.compile(r"mov\w*\s+%rsp, %rbp"), re.compile(r"\(%rbp")),
          (re.compile(r"(add|mov)\s+x29, sp"), re.compile(r"\bx29\b")),
          (re.compile(r"(addi\.d|move)\s+\$fp, \$sp"), re.compile(r"\$fp\b"))]
CONVERSION = re.compile(r"v?cvt\w*s[sd]\w*|v?cvts[sd]\w+|movgr2fr\S*|movfr2gr\S*|(?:ffint|ftint|fcvt)\S*\.\S+")
ARM_CONVERSION = re.compile(r"(?:[su]cvtf|fcvt\w*)\s+[swxdh]\d+")
CALL = re.compile(r"callq?|bl|blr|jirl\s+\$ra.*")

Instruction = collections.namedtuple("Instruction", "address mnemonic operands target")


def functions_of(text):
    """{name: instructions} of llvm-objdump -d --no-show-raw-insn."""
    functions, current, name, start = {}, None, "", 0
    for line in text.splitlines():
        if header := re.match(r"([0-9a-f]+) <(.+)>:$", line):
            name, start = header[2], int(header[1], 16)
            current = functions.setdefault(name, [])
        elif current is not None and (part := re.match(r"\s*([0-9a-f]+):\s+(?:{\w+}\s+)?(\S+)\s*(.*)$", line)):
            # A jump's target reads <function+0x40> on every architecture.
            jump = re.search(r"<([^<>+]+)(?:\+0x([0-9a-f]+))?>$", part[3])
            target = start + int(jump[2] or "0", 16) if jump and jump[1] == name else None
            operands = re.split(r"\s+# |\s*//|\s*<", part[3])[0].strip()
            current.append(Instruction(int(part[1], 16), part[2], operands, target))
    return functions


def products(instruction):
    """Integer or float products of a vector multiplication, 0 when it scales, None for all others."""
    if re.search(r"%r|\b[wx]\d+\b", instruction.operands) and instruction.mnemonic in ("mul", "mla", "mulq"):
        return None
    for pattern, count in MULTIPLICATIONS:
        if re.fullmatch(pattern, instruction.mnemonic):
            return 2 * count if "%zmm" in instruction.operands else count
    return None


def is_jump(instruction):
    return re.fullmatch(r"j\w+|b|b\.\w+|cbn?z|tbn?z|beqz|bnez|b(eq|ne|lt|ge|ltu|geu|gt|le)|bc(eq|ne)z",
                        instruction.mnemonic) is not None


def inner_loop(instructions):
    """Instructions of the innermost loop with the most multiplications; [] when no loop multiplies."""
    places = {instruction.address: i for i, instruction in enumerate(instructions)}
    loops = set()
    for i, instruction in enumerate(instructions):
        begin = places.get(instruction.target) if is_jump(instruction) else None
        if begin is not None and begin <= i:
            loops.add((begin, i))
    inner = [(b, e) for b, e in loops if not any((x, y) != (b, e) and b <= x and y <= e for x, y in loops)]
    bodies = [instructions[b:e + 1] for b, e in inner]
    count = lambda body: sum(products(i) is not None for i in body)
    best = max(bodies, key=count, default=[])
    return best if best and count(best) > 0 else []


def findings(instructions, loop):
    text = "\n".join(f"{i.mnemonic} {i.operands}" for i in instructions)
    frames = [use for setup, use in FRAMES if setup.search(text)]
    for i in loop:
        line = f"{i.mnemonic} {i.operands}"
        if STACK.search(i.operands) or any(frame.search(i.operands) for frame in frames):
            yield f"{i.address:#x}: stack: {line}"
        if CONVERSION.fullmatch(i.mnemonic) or ARM_CONVERSION.match(line):
            yield f"{i.address:#x}: scalar conversion: {line}"
        if CALL.fullmatch(i.mnemonic) or CALL.fullmatch(line):
            yield f"{i.address:#x}: call: {line}"


def describe(name, loop):
    done = sum(products(i) or 0 for i in loop)
    ratio = f", {len(loop) / done:.4f} per multiply-add" if done else ""
    kinds = collections.Counter(i.mnemonic for i in loop).most_common(12)
    return (f"{name}: {loop[0].address:#x}..{loop[-1].address:#x}, {len(loop)} instructions, {done} "
            f"multiply-adds{ratio}\n  " + ", ".join(f"{n} {m}" for m, n in kinds))


def check(text, pattern, show):
    problems, found = [], 0
    for name, instructions in functions_of(text).items():
        if not re.search(pattern, name):
            continue
        found += 1
        loop = inner_loop(instructions)
        if not loop:
            problems.append(f"{name}: no loop with vector multiplications")
            continue
        print(describe(name, loop))
        if show:
            print("\n".join(f"  {i.address:6x}  {i.mnemonic:20} {i.operands}" for i in loop))
        problems += [f"{name}: {line}" for line in findings(instructions, loop)]
    if found == 0:
        problems.append(f"no function matches {pattern}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--function", default="q4_(exact_)?panels_(tokens|single)", metavar="REGEX")
    parser.add_argument("--print", action="store_true", help="the loops' instructions")
    parser.add_argument("--text", action="store_true", help="FILE is a disassembly")
    options = parser.parse_args()
    if options.text:
        with open(options.file, encoding="utf-8") as file:
            text = file.read()
    else:
        command = ["llvm-objdump-19", "-d", "--no-show-raw-insn", options.file]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode != 0:
            sys.exit(f"check_loops: {ran.stderr.strip()}")
        text = ran.stdout
    problems = check(text, options.function, options.print)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
