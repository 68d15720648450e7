#pragma once

#include <cstdint>
#include <vector>

namespace llmc::hosted::grammar {

/// Returns whether two stacks contain the same states. `a` and `b` are the indices of their top
/// frames {state, below}. An index past the frames is the end of a stack and equals only itself.
template <class Frame>
bool same_stack(const std::vector<Frame>& frames, std::uint32_t a, std::uint32_t b) {
  while (a != b) {
    if (a >= frames.size() || b >= frames.size() || frames[a].state != frames[b].state)
      return false;
    a = frames[a].below;
    b = frames[b].below;
  }
  return true;
}

}  // namespace llmc::hosted::grammar
