#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/outcome.h"
#include "runtime/hosted/tokenizer/prefix_index.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

namespace llmc::hosted {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, stands for a space

/// sentencepiece's text normalization, step by step the same.
class Normalizer {
 public:
  /// LLMC_ERROR_FORMAT when the charsmap is damaged. `name` stands for the file in messages.
  static Outcome<Normalizer> create(NormalizerRules rules, const std::string& name);

  /// Text in the vocabulary's form. `keep`: user-defined symbols, which pass unchanged.
  std::string normalize(std::string_view text, const PrefixIndex& keep) const;
  const NormalizerRules& rules() const { return rules_; }

 private:
  struct Step {
    std::string_view text;  // what the next characters become
    std::size_t consumed;
  };
  Step next(std::string_view input, const PrefixIndex& keep) const;
  /// The longest rule `input` begins with; consumed 0: none.
  Step apply_rules(std::string_view input) const;

  NormalizerRules rules_;
  std::vector<std::uint32_t> trie_;  // a double array, as darts-clone writes it
  std::string replacements_;         // zero-terminated, the trie's values are offsets
};

}  // namespace llmc::hosted
