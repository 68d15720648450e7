#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/plan/program.h"

namespace llmc::emit {

/// Symbolic names for the row widths of a decoder's buffers: "kHidden" for the residual stream,
/// "kVocab" for logits, "kHeads * kHeadDim" for queries and attention outputs, "kFfn" for the
/// activations inside feed-forward blocks if all of these have one width. Buffers that elementwise
/// stages connect with these get the same name. Other buffers get a number, even if their width has
/// the same value.
class RowWidths {
 public:
  explicit RowWidths(const plan::Program& program);
  /// Returns the C++ expression for `width`, the number of elements in a row of the buffer.
  std::string operator()(plan::BufferId buffer, std::uint64_t width) const;
  /// Returns the value of the emitted constant kFfn, the width of feed-forward rows. Returns 0 if
  /// the decoder has no such rows, or rows of several widths: then kFfn is not emitted.
  std::uint64_t ffn() const { return ffn_.width; }

 private:
  struct Name {
    std::string text;
    std::uint64_t width = 0;
  };
  void add(const std::vector<plan::Stage>& stages);

  Name hidden_, heads_, ffn_;
  std::map<plan::BufferId, Name> names_;
};

}  // namespace llmc::emit
