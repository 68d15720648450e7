#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/pushdown.h"

namespace llmc::hosted::grammar {

/// Computes supersets of the bytes that can be read after a pop: by the frame itself and, if it
/// accepts, by the frames that can be below it.
class ReachableBytes {
 public:
  /// Requires below == frames_below(pushdown). Keeps a reference to `below`.
  ReachableBytes(const Pushdown& pushdown, const FramesBelow& below);

  /// Returns whether a frame can read the byte. Requires a state that an edge pushes.
  bool by_frame(std::uint32_t frame, std::uint8_t byte) const { return by_frame_[frame][byte]; }
  /// Returns whether any frame that can be below a state can read the byte.
  bool below(std::uint32_t state, std::uint8_t byte) const { return of_set_[set_of_[state]][byte]; }

 private:
  using Bytes = std::bitset<256>;
  const std::vector<std::uint32_t>& set_of_;
  std::vector<Bytes> by_frame_, of_set_;
};

}  // namespace llmc::hosted::grammar
