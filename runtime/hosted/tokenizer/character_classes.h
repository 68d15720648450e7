#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/hosted/tokenizer/character_set.h"

namespace llmc::hosted {

/// Partitions the code points into classes, so that the members of a class belong to the same sets
/// of a collection. One lookup finds the class of a character; a second lookup finds whether a set
/// contains it.
class CharacterClasses {
 public:
  using Class = std::uint8_t;
  static constexpr Class kEnd = 0;  // after the end of the text; in no set
  static constexpr std::size_t kMaxClasses = 256;

  /// Builds the classes. Returns false if the sets need more than kMaxClasses.
  bool build(const std::vector<CharacterSet>& sets);

  Class of(std::uint32_t code_point) const {
    return code_point < 128 ? first_[code_point]
                            : pages_[page_of_[code_point >> 8]][code_point & 0xFF];
  }
  bool has(std::size_t set, Class character) const {
    return members_[set * kMaxClasses + character] != 0;
  }

  /// A character of a text. `bytes` is 0 at the end of the text.
  struct At {
    Class kind = kEnd;
    std::uint32_t bytes = 0;
  };
  /// Returns the character at byte `place`. `byte_level`: each byte represents the character with
  /// which byte-level vocabularies spell it. A byte that is not UTF-8 is an unassigned character.
  At at(std::string_view text, std::size_t place, bool byte_level) const {
    if (place >= text.size()) return {};
    const auto byte = static_cast<unsigned char>(text[place]);
    if (byte_level) return {of_bytes_[byte], 1};
    if (byte < 0x80) return {first_[byte], 1};
    return decoded(text.substr(place));
  }

 private:
  using Page = std::array<Class, 256>;
  At decoded(std::string_view text) const;

  Page first_{};     // the first page, which contains the characters of most texts
  Page of_bytes_{};  // characters that represent bytes
  std::vector<std::uint16_t> page_of_;
  std::vector<Page> pages_;
  std::vector<unsigned char> members_;  // by set, then class
};

}  // namespace llmc::hosted
