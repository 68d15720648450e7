#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/hosted/tokenizer/character_set.h"

namespace llmc::hosted {

/// The code points, divided into classes that no set of a collection tells apart. One lookup gives
/// a character's class, one more whether a set has it.
class CharacterClasses {
 public:
  using Class = std::uint8_t;
  static constexpr Class kEnd = 0;  // past the text; in no set
  static constexpr std::size_t kMaxClasses = 256;

  /// False when the sets need more classes than there can be.
  bool build(const std::vector<CharacterSet>& sets);

  Class of(std::uint32_t code_point) const {
    return code_point < 128 ? first_[code_point]
                            : pages_[page_of_[code_point >> 8]][code_point & 0xFF];
  }
  bool has(std::size_t set, Class character) const {
    return members_[set * kMaxClasses + character] != 0;
  }

  /// A character of a text; bytes 0 at its end.
  struct At {
    Class kind = kEnd;
    std::uint32_t bytes = 0;
  };
  /// The character at `place`. `byte_level`: each byte is the character that byte-level
  /// vocabularies spell it with. A byte that is not UTF-8 is an unassigned character.
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

  Page first_{};     // of the first page, where most text is
  Page of_bytes_{};  // of the characters that bytes are spelled with
  std::vector<std::uint16_t> page_of_;
  std::vector<Page> pages_;
  std::vector<unsigned char> members_;  // by set and class
};

}  // namespace llmc::hosted
