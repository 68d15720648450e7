#pragma once

#include <string>
#include <string_view>

#include "runtime/hosted/tokenizer/tables.h"

/// The steps that normalize text for a vocabulary.
namespace llmc::hosted {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, which represents a space

enum class Normalizer : std::uint32_t {
  kForm,  // flags: a NormalForm
  kLowercase,
  kReplace,          // replace every `first` by `second`
  kReplaceSpaces,    // replace every run of at least `flags` times \s (1) or of U+0020 (2) by
                     // `second`
  kPrepend,          // insert `first` before a text that is not empty
  kStrip,            // remove white space at the start (flags 1) and the end (2)
  kDropMarks,        // flags: a CategorySet
  kClean,            // BERT: remove controls, replace white space by U+0020
  kSpaceIdeographs,  // BERT: insert spaces around Chinese characters
  kCharsmap,         // `first`: sentencepiece's compiled rules, applied to grapheme clusters
  kSentencePiece,    // `first`: the rules, or nothing; flags: SentencePieceFlag
  kValid,            // replace bytes that are not UTF-8 by U+FFFD
  kCount,
};

/// sentencepiece's NormalizerSpec.
enum SentencePieceFlag : std::uint32_t {
  kAddSpace = 1,
  kRemoveExtraSpaces = 2,
  kEscapeSpaces = 4,
  kSpaceAsSuffix = 8,
};

/// Returns whether a step of a tables file is valid.
bool is_normalizer(const Tables& tables, const StepRecord& step);
/// Applies one step to a text.
std::string normalize(const Tables& tables, const StepRecord& step, std::string text);

/// sentencepiece's compiled replacement rules: a double array in darts-clone's format, preceded by
/// its size in bytes, then zero-terminated replacements. Every index is checked when it is used.
class Charsmap {
 public:
  explicit Charsmap(std::string_view bytes);
  /// Returns whether the bytes have the structure of a charsmap.
  static bool is_whole(std::string_view bytes);

  struct Match {
    std::string_view text;  // the replacement
    std::size_t bytes = 0;  // 0: no rule
  };
  /// Returns the longest (or shortest) rule that `input` begins with.
  Match find(std::string_view input, bool longest) const;

 private:
  std::uint32_t unit(std::size_t index) const;
  std::string_view trie_, replacements_;
};

}  // namespace llmc::hosted
