#!/usr/bin/env python3
"""Writes runtime/hosted/tokenizer/unicode_tables.inc from the files of Debian's unicode-data package.

    tools/unicode_tables.py [/usr/share/unicode] > runtime/hosted/tokenizer/unicode_tables.inc
"""
import re
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/unicode")
LIMIT = 0x110000
# In the order of enum Category in unicode.h.
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
# In the order of enum class Break in unicode.cpp.
BREAKS = ("Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT "
          "Extended_Pictographic").split()


def records(name):
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line:
            yield [part.strip() for part in line.split(";")]


def span(text):
    first, _, last = text.partition("..")
    return range(int(first, 16), int(last or first, 16) + 1)


def runs(values):
    """(first, value) of each run of equal values."""
    out, before = [], None
    for c, value in enumerate(values):
        if value != before:
            out.append((c, value))
            before = value
    return out


def table(kind, name, comment, numbers):
    print(f"/// {comment}\ninline constexpr {kind} {name}[] = {{")
    line = ""
    for number in numbers:
        text = str(number) if -10 < number < 10 else f"{'-' if number < 0 else ''}0x{abs(number):X}"
        if len(line) + len(text) + 1 > 118:
            print(line)
            line = ""
        line += text + ","
    print(line + "\n};\n")


category, combining, lower, mapping = [0] * LIMIT, [0] * LIMIT, {}, {}
first_of_range = None
for fields in records("UnicodeData.txt"):
    c = int(fields[0], 16)
    if fields[1].endswith("First>"):
        first_of_range = c
        continue
    start = first_of_range if fields[1].endswith("Last>") else c
    for each in range(start, c + 1):
        category[each] = CATEGORIES.index(fields[2])
        combining[each] = int(fields[3])
    if fields[5]:
        compat = fields[5].startswith("<")
        mapping[c] = (compat, [int(x, 16) for x in re.sub(r"<.*> ", "", fields[5]).split()])
    if fields[13]:
        lower[c] = [int(fields[13], 16)]
for fields in records("SpecialCasing.txt"):
    c, small = int(fields[0], 16), [int(x, 16) for x in fields[1].split()]
    if len(fields) == 5 and len(small) > 1:  # unconditional: fields[4] is what follows the last ';'
        lower[c] = small
excluded = {int(fields[0], 16) for fields in records("CompositionExclusions.txt")}

breaks = [0] * LIMIT
for fields in records("auxiliary/GraphemeBreakProperty.txt"):
    for c in span(fields[0]):
        breaks[c] = BREAKS.index(fields[1])
for fields in records("emoji/emoji-data.txt"):
    if fields[1] == "Extended_Pictographic":
        for c in span(fields[0]):
            breaks[c] = breaks[c] or BREAKS.index(fields[1])

version = re.search(r"DerivedAge-([0-9.]+)\.txt", (FOLDER / "DerivedAge.txt").read_text()).group(1)
print(f"// Unicode {version}, written by tools/unicode_tables.py.\n// clang-format off")
table("std::uint32_t", "kCategoryRuns", "First code point of a run << 5 | its Category.",
      [c << 5 | v for c, v in runs(category)])
table("std::uint32_t", "kCombiningRuns", "First code point of a run << 8 | Canonical_Combining_Class.",
      [c << 8 | v for c, v in runs(combining)])
table("std::uint32_t", "kBreakRuns", "First code point of a run << 5 | Grapheme_Cluster_Break.",
      [c << 5 | v for c, v in runs(breaks)])
numbers = []
for c, (compat, parts) in sorted(mapping.items()):
    composes = (not compat and len(parts) == 2 and c not in excluded and combining[c] == 0 and
                combining[parts[0]] == 0)
    numbers += [c | len(parts) << 21 | compat << 26 | composes << 27] + parts
table("std::uint32_t", "kMappings",
      "Decomposition_Mapping: code point | length << 21 | compatibility << 26 | composes << 27, then the characters.",
      numbers)
pairs, ranges = sorted((c, x[0] - c) for c, x in lower.items() if len(x) == 1), []
for c, delta in pairs:
    last = ranges[-1] if ranges else None
    if last and last[2] == delta and (last[3] == 0 or c - last[1] == last[3]) and c - last[1] <= 2:
        last[3] = c - last[1]
        last[1] = c
    else:
        ranges.append([c, c, delta, 0])
table("std::int32_t", "kLowerRanges", "First, last, distance to the small letter, step.",
      [x for first, last, delta, step in ranges for x in (first, last, delta, step or 1)])
assert {c: x for c, x in lower.items() if len(x) > 1} == {0x130: [0x69, 0x307]}  # in to_lower()
print("// clang-format on")
