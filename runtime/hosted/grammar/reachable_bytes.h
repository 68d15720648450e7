#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/pushdown.h"

namespace llmc::hosted::grammar {

/// Which bytes what lies on a stack can read: a frame itself or, where it accepts, what can lie
/// below it. More than what is possible, never less.
class ReachableBytes {
 public:
  /// `below` is frames_below(pushdown).
  ReachableBytes(const Pushdown& pushdown, const FramesBelow& below);

  /// Of a state that some edge pushes.
  bool by_frame(std::uint32_t frame, std::uint8_t byte) const { return by_frame_[frame][byte]; }
  /// Of what can lie below a state.
  bool below(std::uint32_t state, std::uint8_t byte) const { return of_set_[set_of_[state]][byte]; }

 private:
  using Bytes = std::bitset<256>;
  const std::vector<std::uint32_t>& set_of_;
  std::vector<Bytes> by_frame_, of_set_;
};

}  // namespace llmc::hosted::grammar
