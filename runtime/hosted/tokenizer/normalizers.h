#pragma once

#include <string>
#include <string_view>

#include "runtime/hosted/tokenizer/tables.h"

/// The steps that normalize text for a vocabulary.
namespace llmc::hosted {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, which represents a space

enum class Normalizer : std::uint32_t {
  kForm,  // convert to the NormalForm in flags
  kLowercase,
  kReplace,  // replace every `first` with `second`
  /// Replace every run of white space (flags 1) or of two or more U+0020 (flags 2) with `second`.
  kReplaceSpaces,
  kPrepend,    // insert `first` before a text that is not empty
  kStrip,      // remove white space at the start (flags 1) and the end (2)
  kDropMarks,  // remove the characters of the categories in flags (a CategorySet)
  /// BERT: remove control, format and private-use characters, U+FFFD and bytes that are not UTF-8;
  /// replace white space with U+0020.
  kClean,
  kSpaceIdeographs,  // BERT: insert spaces around Chinese characters
  kCharsmap,         // `first`: sentencepiece's compiled rules, applied to grapheme clusters
  kSentencePiece,    // `first`: the rules, may be empty; flags: SentencePieceFlag
  kValid,            // replace bytes that are not UTF-8 with U+FFFD
  kCount,
};

/// The options of sentencepiece's NormalizerSpec.
enum SentencePieceFlag : std::uint32_t {
  kAddSpace = 1,
  kRemoveExtraSpaces = 2,
  kEscapeSpaces = 4,
  kSpaceAsSuffix = 8,
};

/// Returns whether a step in a tables file is valid.
bool is_normalizer(const Tables& tables, const StepRecord& step);
/// Applies one step to a text.
std::string normalize(const Tables& tables, const StepRecord& step, std::string text);

/// The compiled replacement rules of sentencepiece: the size of a double array, the array in the
/// format of darts-clone, then zero-terminated replacements. Every index is checked when it is
/// used.
class Charsmap {
 public:
  explicit Charsmap(std::string_view bytes);
  /// Returns whether the bytes have this structure and no replacement has more than 256 bytes.
  static bool is_whole(std::string_view bytes);

  struct Match {
    std::string_view text;  // the replacement
    std::size_t bytes = 0;  // 0: no rule
  };
  /// Returns the rule whose text is at the start of `input`: the longest one if `longest` is set,
  /// else the shortest.
  Match find(std::string_view input, bool longest) const;

 private:
  std::uint32_t unit(std::size_t index) const;
  std::string_view trie_, replacements_;
};

}  // namespace llmc::hosted
