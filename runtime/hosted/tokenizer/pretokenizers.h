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
  kSpaceInFront,  // insert a space before every text that has none
  kMetaspace,     // replace spaces by `first` and insert one at the start; flags: MetaspaceFlag
  kCount,
};

/// How matches are handled (Hugging Face's names).
enum class SplitBehavior : std::uint32_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
  kCount,
};

/// Flags of a split: behavior << 8, combined with these.
enum SplitFlag : std::uint32_t {
  kSplitInverted = 1 << 16,   // the text between matches counts as the match
  kSplitByteLevel = 1 << 17,  // each byte stands for the character that spells it
};
enum MetaspaceFlag : std::uint32_t {
  kMetaspaceAlways = 1,  // before every part
  kMetaspaceFirst = 2,   // only at the start of the text
  kMetaspaceSplits = 4,
};

/// A part of the text that will be split further or tokenized.
struct Part {
  std::string_view text;
  bool begins = false;  // at the start of the text
};

/// Texts created by steps; they live as long as parts point to them.
using TextStore = std::deque<std::string>;

/// Returns whether a step of a tables file is valid; Tables compiles the patterns.
bool is_pretokenizer(const StepRecord& step);
/// Applies step `index` of the tables to all parts.
void pretokenize(const Tables& tables, std::size_t index, std::vector<Part>& parts,
                 TextStore& store);

}  // namespace llmc::hosted
