#pragma once

#include <string>
#include <string_view>

#include "runtime/hosted/tokenizer/tables.h"

/// The steps that bring text into a vocabulary's form.
namespace llmc::hosted {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, stands for a space

enum class Normalizer : std::uint32_t {
  kForm,  // flags: a NormalForm
  kLowercase,
  kReplace,          // every `first` becomes `second`
  kReplaceSpaces,    // every run of at least `flags` times \s (1) or of U+0020 (2) becomes `second`
  kPrepend,          // `first` in front of a text that is not empty
  kStrip,            // white space at the start (flags 1) and the end (2)
  kDropMarks,        // flags: a CategorySet
  kClean,            // BERT: no controls, every white space is U+0020
  kSpaceIdeographs,  // BERT: spaces around Chinese characters
  kCharsmap,         // `first`: sentencepiece's compiled rules, applied to grapheme clusters
  kSentencePiece,    // `first`: the rules, or nothing; flags: SentencePieceFlag
  kValid,            // what is no UTF-8 becomes U+FFFD
  kCount,
};

/// sentencepiece's NormalizerSpec.
enum SentencePieceFlag : std::uint32_t {
  kAddSpace = 1,
  kRemoveExtraSpaces = 2,
  kEscapeSpaces = 4,
  kSpaceAsSuffix = 8,
};

/// Whether a step of a tables file makes sense.
bool is_normalizer(const Tables& tables, const StepRecord& step);
/// Does one step to a text.
std::string normalize(const Tables& tables, const StepRecord& step, std::string text);

/// sentencepiece's compiled replacement rules: a double array as darts-clone writes it, behind its
/// length in bytes, and zero-terminated replacements. Every index is checked when it is used.
class Charsmap {
 public:
  explicit Charsmap(std::string_view bytes);
  /// Whether the bytes can be a charsmap.
  static bool is_whole(std::string_view bytes);

  struct Match {
    std::string_view text;  // what the bytes become
    std::size_t bytes = 0;  // 0: no rule
  };
  /// The longest rule `input` begins with, or the shortest.
  Match find(std::string_view input, bool longest) const;

 private:
  std::uint32_t unit(std::size_t index) const;
  std::string_view trie_, replacements_;
};

}  // namespace llmc::hosted
