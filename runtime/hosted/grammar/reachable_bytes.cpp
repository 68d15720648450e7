#include "runtime/hosted/grammar/reachable_bytes.h"

#include "runtime/hosted/grammar/sorted.h"

namespace llmc::hosted::grammar {

ReachableBytes::ReachableBytes(const Pushdown& pushdown, const FramesBelow& below)
    : set_of_(below.set_of), by_frame_(pushdown.states.size()), of_set_(below.sets.size()) {
  std::vector<std::uint32_t> frames = pushdown.frames;
  sort_unique(frames);
  // By frame: the sets that contain it. By set: the accepting frames that have it below them.
  std::vector<std::vector<std::uint32_t>> sets_with(pushdown.states.size());
  std::vector<std::vector<std::uint32_t>> ends_above(below.sets.size());
  for (std::uint32_t set = 0; set < below.sets.size(); ++set)
    for (const std::uint32_t frame : below.sets[set])
      if (frame != kBottom) sets_with[frame].push_back(set);
  for (const std::uint32_t frame : frames) {
    for (const Pushdown::Edge& edge : pushdown.states[frame].edges)
      for (std::uint32_t byte = edge.low; byte <= edge.high; ++byte) by_frame_[frame].set(byte);
    if (pushdown.states[frame].accepts) ends_above[below.set_of[frame]].push_back(frame);
  }
  while (!frames.empty()) {  // propagate new bytes until nothing changes
    const std::uint32_t frame = frames.back();
    frames.pop_back();
    for (const std::uint32_t set : sets_with[frame]) {
      const Bytes all = of_set_[set] | by_frame_[frame];
      if (all == of_set_[set]) continue;
      of_set_[set] = all;
      for (const std::uint32_t above : ends_above[set]) {
        if ((by_frame_[above] | all) == by_frame_[above]) continue;
        by_frame_[above] |= all;
        frames.push_back(above);
      }
    }
  }
}

}  // namespace llmc::hosted::grammar
