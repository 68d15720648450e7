#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/tokenizer/tables.h"

/// The steps that split normalized text into words.
namespace llmc::hosted {

enum class Pretokenizer : std::uint32_t {
  kPattern,       // split at matches of the regular expression `first`, with `flags`
  kLiteral,       // split at each `first`
  kSpaceInFront,  // insert a space before every part that does not begin with one
  kMetaspace,     // replace each space with `first`, then apply the flags (MetaspaceFlag)
  kCount,
};

/// What happens to matches (Hugging Face's names).
enum class SplitBehavior : std::uint32_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
  kCount,
};

/// Flags of a split. The behavior, shifted left by 8, is combined with them.
enum SplitFlag : std::uint32_t {
  kSplitInverted = 1 << 16,  // the text between matches is treated as the match
  /// Each byte represents the character with which byte-level vocabularies spell it.
  kSplitByteLevel = 1 << 17,
};
enum MetaspaceFlag : std::uint32_t {
  kMetaspaceAlways = 1,  // insert `first` before every part that does not begin with it
  kMetaspaceFirst = 2,   // the same only for the part at the start of the text
  kMetaspaceSplits = 4,  // then split before each `first`
};

/// A part of the text, which further steps split or which is tokenized.
struct Part {
  std::string_view text;
  bool begins = false;  // whether it is at the start of the text
};

/// Texts that steps create. Parts refer to them, so it must live as long as the parts.
using TextStore = std::deque<std::string>;

/// Returns whether a step in a tables file is valid, except for its pattern, which Tables compiles.
bool is_pretokenizer(const StepRecord& step);
/// Applies step `index` of the tables to all parts.
void pretokenize(const Tables& tables, std::size_t index, std::vector<Part>& parts,
                 TextStore& store);

}  // namespace llmc::hosted
