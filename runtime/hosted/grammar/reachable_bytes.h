#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/pushdown.h"

namespace llmc::hosted::grammar {

/// Supersets of the bytes that can be read after a pop: by the frame itself or, if it accepts, by
/// the frames that can be below it.
class ReachableBytes {
 public:
  /// Requires below == frames_below(pushdown); keeps a reference to it.
  ReachableBytes(const Pushdown& pushdown, const FramesBelow& below);

  /// Whether a frame can read the byte. Requires a state that some edge pushes.
  bool by_frame(std::uint32_t frame, std::uint8_t byte) const { return by_frame_[frame][byte]; }
  /// Whether some frame that can be below a state can read the byte.
  bool below(std::uint32_t state, std::uint8_t byte) const { return of_set_[set_of_[state]][byte]; }

 private:
  using Bytes = std::bitset<256>;
  const std::vector<std::uint32_t>& set_of_;
  std::vector<Bytes> by_frame_, of_set_;
};

}  // namespace llmc::hosted::grammar
