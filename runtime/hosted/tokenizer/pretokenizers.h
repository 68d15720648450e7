#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/tokenizer/tables.h"

/// The steps that split normalized text into words.
namespace llmc::hosted {

enum class Pretokenizer : std::uint32_t {
  kPattern,       // split at matches of the regular expression `first`: flags
  kLiteral,       // split at each `first`
  kSpaceInFront,  // a space before every text that has none
  kMetaspace,     // spaces become `first`, one is put in front; flags: MetaspaceFlag
  kCount,
};

/// What becomes of the matches (Hugging Face's names).
enum class SplitBehavior : std::uint32_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
  kCount,
};

/// Flags of a split: behavior << 8, and these.
enum SplitFlag : std::uint32_t {
  kSplitInverted = 1 << 16,   // what lies between the matches is the match
  kSplitByteLevel = 1 << 17,  // each byte is the character its spelling is
};
enum MetaspaceFlag : std::uint32_t {
  kMetaspaceAlways = 1,  // in front of every part
  kMetaspaceFirst = 2,   // only where the text begins
  kMetaspaceSplits = 4,
};

/// A part of the text, to be split further or to become tokens.
struct Part {
  std::string_view text;
  bool begins = false;  // nothing of the text stands before it
};

/// Texts that steps made, kept as long as parts point into them.
using TextStore = std::deque<std::string>;

/// Whether a step of a tables file makes sense; patterns are compiled by Tables.
bool is_pretokenizer(const StepRecord& step);
/// Applies the step `index` of the tables to all parts.
void pretokenize(const Tables& tables, std::size_t index, std::vector<Part>& parts,
                 TextStore& store);

}  // namespace llmc::hosted
