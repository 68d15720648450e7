#pragma once

#include <cstdint>
#include <vector>

#include "runtime/hosted/tokenizer/unicode.h"

namespace llmc::hosted {

inline constexpr std::uint32_t kLastCodePoint = 0x10FFFF;

/// A set of code points: sorted ranges that do not overlap; both ends are included.
class CharacterSet {
 public:
  CharacterSet() = default;
  CharacterSet(std::uint32_t first, std::uint32_t last) : ranges_{{first, last}} {}
  static CharacterSet of_categories(CategorySet categories);
  static CharacterSet white_space();  // \s
  /// Returns \w as it is inside brackets: the word characters of UTS 18 without join controls.
  static CharacterSet word();
  /// Returns the word characters of \w and \b outside brackets, to which Oniguruma adds six number
  /// characters of Latin-1.
  static CharacterSet bare_word();

  void add(const CharacterSet& other);
  CharacterSet complement() const;
  CharacterSet intersection(const CharacterSet& other) const;
  bool contains(std::uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool operator==(const CharacterSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace llmc::hosted
