#include "runtime/hosted/tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "runtime/hosted/tokenizer/unicode_data.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// Returns the categories of the characters in the Basic Multilingual Plane, one byte each. Nearly
/// all text consists of these characters.
const std::array<Category, 0x10000>& first_plane() {
  static const std::array<Category, 0x10000> kTable = [] {
    std::array<Category, 0x10000> table{};
    for (std::uint32_t c = 0; c < table.size(); ++c)
      table[c] = static_cast<Category>(run_value(kCategoryRuns, c, 5));
    return table;
  }();
  return kTable;
}

}  // namespace

Category category_of(std::uint32_t code_point) {
  static const auto& kTable = first_plane();
  if (code_point < kTable.size()) return kTable[code_point];
  return static_cast<Category>(run_value(kCategoryRuns, code_point, 5));
}

bool is_space(std::uint32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 0x9 && code_point <= 0xD);
  return code_point == 0x85 || is_in(code_point, kSeparators);
}

bool is_word(std::uint32_t code_point) {
  return is_in(code_point, kWordCategories) || code_point == 0x200C || code_point == 0x200D ||
         std::ranges::any_of(kAlphabeticSymbols, [&](const CodePointRange& range) {
           return code_point >= range.first && code_point <= range.last;
         });
}

std::vector<CodePointRange> category_ranges(CategorySet categories) {
  std::vector<CodePointRange> ranges;
  for (std::size_t i = 0; i < std::size(kCategoryRuns); ++i) {
    if ((categories >> (kCategoryRuns[i] & 31) & 1) == 0) continue;
    const std::uint32_t first = kCategoryRuns[i] >> 5;
    const std::uint32_t end =
        i + 1 < std::size(kCategoryRuns) ? kCategoryRuns[i + 1] >> 5 : 0x110000;
    if (!ranges.empty() && ranges.back().last + 1 == first)
      ranges.back().last = end - 1;
    else
      ranges.push_back({first, end - 1});
  }
  return ranges;
}

std::uint8_t combining_class(std::uint32_t code_point) {
  if (code_point < 0x300) return 0;
  return static_cast<std::uint8_t>(run_value(kCombiningRuns, code_point, 8));
}

void append_lower(std::uint32_t code_point, std::string& out) {
  if (code_point == 0x130) {  // the only character that becomes two characters
    append_utf8(0x69, out);
    return append_utf8(0x307, out);
  }
  struct Range {
    std::int32_t first, last, delta, step;
  };
  constexpr std::size_t kRanges = std::size(kLowerRanges) / 4;
  const auto c = static_cast<std::int32_t>(code_point);
  std::size_t low = 0, high = kRanges;  // find the first range that ends at `code_point` or later
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (kLowerRanges[middle * 4 + 1] < c)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < kRanges) {
    const Range range{kLowerRanges[low * 4], kLowerRanges[low * 4 + 1], kLowerRanges[low * 4 + 2],
                      kLowerRanges[low * 4 + 3]};
    if (c >= range.first && (c - range.first) % range.step == 0)
      return append_utf8(static_cast<std::uint32_t>(c + range.delta), out);
  }
  append_utf8(code_point, out);
}

namespace {

// The values are in the order of unicode_tables.py.
enum class Break : std::uint8_t {
  // clang-format off
  kOther, kCr, kLf, kControl, kExtend, kZwj, kRegional, kPrepend, kSpacing, kL, kV, kT, kLv, kLvt,
  kPictograph,
  // clang-format on
};

Break break_of(std::uint32_t code_point) {
  return static_cast<Break>(run_value(kBreakRuns, code_point, 5));
}

bool is_control(Break b) {
  return b == Break::kCr || b == Break::kLf || b == Break::kControl;
}

/// Returns whether a cluster continues between two characters: rules GB3 to GB9b of UAX 29.
bool joins(Break left, Break right) {
  if (left == Break::kCr) return right == Break::kLf;
  if (is_control(left) || is_control(right)) return false;
  if (left == Break::kL &&
      (right == Break::kL || right == Break::kV || right == Break::kLv || right == Break::kLvt))
    return true;
  if ((left == Break::kLv || left == Break::kV) && (right == Break::kV || right == Break::kT))
    return true;
  if ((left == Break::kLvt || left == Break::kT) && right == Break::kT) return true;
  return right == Break::kExtend || right == Break::kZwj || right == Break::kSpacing ||
         left == Break::kPrepend;
}

}  // namespace

std::size_t first_grapheme(std::string_view text) {
  Utf8Char c = decode_utf8(text);
  if (c.bytes == 0) return 1;
  std::size_t end = c.bytes;
  Break left = break_of(c.code_point);
  // Whether only extenders follow a pictograph (GB11), and whether the number of regional
  // indicators is odd (GB12).
  bool pictograph = left == Break::kPictograph;
  bool after_regional = left == Break::kRegional;
  while ((c = decode_utf8(text.substr(end))).bytes > 0) {
    const Break right = break_of(c.code_point);
    const bool emoji = pictograph && left == Break::kZwj && right == Break::kPictograph;
    const bool flag = after_regional && left == Break::kRegional && right == Break::kRegional;
    if (!joins(left, right) && !emoji && !flag) break;
    pictograph = right == Break::kPictograph ||
                 (pictograph && (right == Break::kExtend || right == Break::kZwj));
    after_regional = right == Break::kRegional && !flag;
    left = right;
    end += c.bytes;
  }
  return end;
}

}  // namespace llmc::hosted
