#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/plan/program.h"

namespace llmc::emit {

/// Names of the widths of a decoder's rows: "kHidden" for the residual stream, "kVocab" for logits,
/// "kHeads * kHeadDim" for queries and attention's results. A width that only happens to be equal
/// stays a number.
class RowWidths {
 public:
  explicit RowWidths(const plan::Program& program);
  /// The text of `width`, the number of elements in a row of the buffer.
  std::string operator()(plan::BufferId buffer, std::uint64_t width) const;

 private:
  struct Name {
    std::string text;
    std::uint64_t width = 0;
  };
  void add(const std::vector<plan::Stage>& stages);

  Name hidden_, heads_;
  std::map<plan::BufferId, Name> names_;
};

}  // namespace llmc::emit
