#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/pushdown.h"

namespace llmc::hosted::grammar {

/// For each frame, a superset of the bytes that can be read after it is popped: by the frame itself
/// and, if it accepts, by the frames that can be below it.
class ReachableBytes {
 public:
  /// Requires below == frames_below(pushdown). Keeps a reference to `below`.
  ReachableBytes(const Pushdown& pushdown, const FramesBelow& below);

  /// Returns whether the byte is in the set of a frame, which must be a state that an edge pushes.
  bool by_frame(std::uint32_t frame, std::uint8_t byte) const { return by_frame_[frame][byte]; }
  /// Returns whether the byte is in the set of any frame that can be directly below a state.
  bool below(std::uint32_t state, std::uint8_t byte) const { return of_set_[set_of_[state]][byte]; }

 private:
  using Bytes = std::bitset<256>;
  const std::vector<std::uint32_t>& set_of_;
  std::vector<Bytes> by_frame_, of_set_;
};

}  // namespace llmc::hosted::grammar
