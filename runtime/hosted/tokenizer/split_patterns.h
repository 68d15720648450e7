#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// How tokenizers split text into words. There is no regular-expression engine: the patterns that
/// real files use are known by their spelling and matched by hand-written rules.
namespace llmc::hosted {

enum class SplitPattern : std::uint32_t {
  kGpt2,
  kGpt2Newer,  // the same, but white space at the end is one word (tiktoken since 0.8)
  kLlama3,     // cl100k's first form
  kCl100k,     // its newer form
  kQwen2,      // kLlama3 with digits one by one
  kQwen3Next,  // kQwen2 with marks among the letters
  kO200k,
  kTekken,  // kO200k without contractions, digits one by one
  kDeepSeek,
  kDeepSeekCjk,   // runs of kana and ideographs
  kUpTo3Numbers,  // \p{N}{1,3}
  kThreeDigits,   // [0-9][0-9][0-9]
  kBloom,
  kNumber,  // each one character
  kSpace,
  kPunctuation,    // Unicode's, and ASCII's symbols too
  kLineBreak,      // [\r\n]
  kSpaces,         // a run of them
  kWordsAndSigns,  // \w+|[^\w\s]+
  kCount,
};

/// The pattern that a regular expression spells; nullopt for others.
std::optional<SplitPattern> pattern_of(std::string_view regular_expression);
/// The pattern of a name: gpt2, llama3, qwen2, …, as tiktoken calls its encodings (cl100k_base).
std::optional<SplitPattern> pattern_named(std::string_view name);

/// Bytes of the match that begins where `text` (not empty) does; 0: none. `byte_level`: each byte
/// is the character that byte-level vocabularies spell it with. A byte that is no UTF-8 is a
/// character that is neither letter, number, mark, punctuation nor space.
std::size_t match_pattern(SplitPattern pattern, std::string_view text, bool byte_level);

/// Bytes of the first character; see match_pattern.
std::size_t first_character(std::string_view text, bool byte_level);

/// The character that byte-level vocabularies spell a byte with (GPT-2's bytes_to_unicode):
/// printable Latin-1 characters are themselves, the other bytes are U+0100 and up, in order.
std::uint32_t spelling_of(unsigned char byte);

}  // namespace llmc::hosted
