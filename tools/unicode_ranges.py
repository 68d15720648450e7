#!/usr/bin/env python3
"""Writes runtime/hosted/tokenizer/unicode_ranges.h from Python's Unicode tables.

    tools/unicode_ranges.py > runtime/hosted/tokenizer/unicode_ranges.h
"""
import unicodedata


def ranges(member):
    found, start = [], None
    for c in range(0x110000 + 1):
        inside = c < 0x110000 and member(chr(c))
        if inside and start is None:
            start = c
        if not inside and start is not None:
            found.append((start, c - 1))
            start = None
    return found


# Unicode's White_Space property (PropList.txt); str.isspace() adds the separators 1C to 1F.
SPACES = {9, 10, 11, 12, 13, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
SPACES |= set(range(0x2000, 0x200B))


def table(name, what, member):
    print(f"/// {what}\ninline constexpr CodePointRange {name}[] = {{")
    line = "   "
    for first, last in ranges(member):
        entry = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(entry) > 100:
            print(line)
            line = "   "
        line += entry
    print(line + "\n};")


print(f"""#pragma once

#include <cstdint>

/// Unicode {unicodedata.unidata_version}, written by tools/unicode_ranges.py.
namespace llmc::hosted {{

struct CodePointRange {{
  std::uint32_t first, last;
}};

// clang-format off""")
table("kLetterRanges", "General category L.", lambda c: unicodedata.category(c)[0] == "L")
print()
table("kNumberRanges", "General category N.", lambda c: unicodedata.category(c)[0] == "N")
print()
table("kSpaceRanges", "White_Space.", lambda c: ord(c) in SPACES)
print("""// clang-format on

}  // namespace llmc::hosted""")
