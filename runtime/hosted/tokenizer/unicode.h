#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Properties and normal forms of Unicode characters (version: unicode_tables.inc).
namespace llmc::hosted {

/// General categories, in the order of unicode_tables.py.
enum class Category : std::uint8_t {
  // clang-format off
  kCn, kLu, kLl, kLt, kLm, kLo, kMn, kMc, kMe, kNd, kNl, kNo, kPc, kPd, kPs, kPe, kPi, kPf, kPo,
  kSm, kSc, kSk, kSo, kZs, kZl, kZp, kCc, kCf, kCs, kCo,
  // clang-format on
};

/// A set of categories, one bit each.
using CategorySet = std::uint32_t;
constexpr CategorySet set_of(Category category) {
  return CategorySet{1} << static_cast<unsigned>(category);
}
/// Returns the categories from `first` to `last`.
constexpr CategorySet set_of(Category first, Category last) {
  return (set_of(last) << 1) - set_of(first);
}
inline constexpr CategorySet kLetters = set_of(Category::kLu, Category::kLo);
inline constexpr CategorySet kMarks = set_of(Category::kMn, Category::kMe);
inline constexpr CategorySet kNumbers = set_of(Category::kNd, Category::kNo);
inline constexpr CategorySet kPunctuation = set_of(Category::kPc, Category::kPo);
inline constexpr CategorySet kSymbols = set_of(Category::kSm, Category::kSo);
inline constexpr CategorySet kSeparators = set_of(Category::kZs, Category::kZp);
inline constexpr CategorySet kOthers = set_of(Category::kCc, Category::kCo) | set_of(Category::kCn);

Category category_of(std::uint32_t code_point);
inline bool is_in(std::uint32_t code_point, CategorySet set) {
  return (set_of(category_of(code_point)) & set) != 0;
}

struct CodePointRange {
  std::uint32_t first = 0, last = 0;  // both ends included
  bool operator==(const CodePointRange&) const = default;
};
/// Returns the characters of some categories as sorted ranges.
std::vector<CodePointRange> category_ranges(CategorySet categories);

/// Returns whether the character has the property White_Space.
bool is_space(std::uint32_t code_point);
/// Returns whether the character matches \w in Unicode's regular expressions (UTS 18, annex C): a
/// character of kWordCategories, another alphabetic character, or a join control.
bool is_word(std::uint32_t code_point);
inline constexpr CategorySet kWordCategories =
    kLetters | kMarks | set_of(Category::kNd, Category::kNl) | set_of(Category::kPc);
/// Circled and squared letters: the characters of category So that are alphabetic.
inline constexpr CodePointRange kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
/// Returns the property Canonical_Combining_Class.
std::uint8_t combining_class(std::uint32_t code_point);
/// Appends the lower-case form (Lowercase_Mapping, without conditions) in UTF-8.
void append_lower(std::uint32_t code_point, std::string& out);

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };
/// Returns the normal form of `text` (UAX 15). Bytes that are not UTF-8 are unchanged, and
/// characters are not reordered or composed across them. O(n log n).
std::string normalize_unicode(std::string_view text, NormalForm form);

/// Returns the size in bytes (> 0) of the first extended grapheme cluster (UAX 29) of `text`, which
/// must not be empty.
std::size_t first_grapheme(std::string_view text);

}  // namespace llmc::hosted
